//! Encodes and decodes files that faults touched.

use crate::MappedFile;
use crate::fault::{FileSection, FileSymbol, FileVariable};
use base::event::FileId;
use base::event::bytes::{Bytes, Malformed, put, put_bytes, put_difference};
use base::event::format::MAX_TEXT;
use task::space::Texts;

/// Longest build id.
const MAX_BUILD_ID: usize = 64;

pub fn encode_files(out: &mut Vec<u8>, files: &[MappedFile], mapped_as: &[FileId]) {
    put(out, files.len() as u64);
    for (index, file) in files.iter().enumerate() {
        encode_id(out, file.id);
        encode_id(out, mapped_as.get(index).copied().unwrap_or(file.id));
        put_bytes(out, file.path.as_bytes(), MAX_TEXT);
        out.push(u8::from(file.deleted));
        put_bytes(out, &file.build_id, MAX_BUILD_ID);
        put(out, file.sections.len() as u64);
        let mut last = 0;
        for section in &file.sections {
            put_bytes(out, section.name.as_bytes(), MAX_TEXT);
            put_difference(out, last, section.offset);
            put(out, section.size);
            put_difference(out, section.offset, section.svma);
            last = section.offset;
        }
        put(out, file.symbols.len() as u64);
        last = 0;
        for symbol in &file.symbols {
            put_bytes(out, symbol.name.as_bytes(), MAX_TEXT);
            put_difference(out, last, symbol.offset);
            put(out, symbol.size);
            last = symbol.offset;
        }
    }
}

pub fn decode_files(bytes: &mut Bytes<'_>) -> Result<(Vec<MappedFile>, Vec<FileId>), Malformed> {
    let (mut files, mut mapped_as) = (Vec::new(), Vec::new());
    let mut paths = Texts::default();
    for _ in 0..bytes.get_len(bytes.0.len())? {
        let id = decode_id(bytes)?;
        mapped_as.push(decode_id(bytes)?);
        let path = paths.shared(&text(bytes)?);
        let deleted = bytes.byte()? != 0;
        let build_id = bytes.get_bytes(MAX_BUILD_ID)?.to_vec();
        let (mut sections, mut symbols) = (Vec::new(), Vec::new());
        let mut last = 0;
        for _ in 0..bytes.get_len(bytes.0.len())? {
            let name = text(bytes)?;
            let offset = bytes.get_difference(last)?;
            let size = bytes.get()?;
            let svma = bytes.get_difference(offset)?;
            last = offset;
            sections.push(FileSection {
                name,
                offset,
                size,
                svma,
            });
        }
        last = 0;
        for _ in 0..bytes.get_len(bytes.0.len())? {
            let name = text(bytes)?;
            let offset = bytes.get_difference(last)?;
            let size = bytes.get()?;
            last = offset;
            symbols.push(FileSymbol { name, offset, size });
        }
        files.push(MappedFile {
            id,
            path,
            deleted,
            build_id,
            sections,
            symbols,
            variables: Vec::new(),
        });
    }
    Ok((files, mapped_as))
}

pub fn encode_variables(out: &mut Vec<u8>, files: &[MappedFile]) {
    for file in files {
        put(out, file.variables.len() as u64);
        for variable in &file.variables {
            put_bytes(out, variable.name.as_bytes(), MAX_TEXT);
            put(out, variable.start);
            put(out, variable.size);
        }
    }
}

pub fn decode_variables(bytes: &mut Bytes<'_>, files: &mut [MappedFile]) -> Result<(), Malformed> {
    for file in files {
        for _ in 0..bytes.get_len(bytes.0.len())? {
            file.variables.push(FileVariable {
                name: text(bytes)?,
                start: bytes.get()?,
                size: bytes.get()?,
            });
        }
        file.variables.sort_by_key(|variable| variable.start);
    }
    Ok(())
}

fn encode_id(out: &mut Vec<u8>, id: FileId) {
    for value in [
        u64::from(id.major),
        u64::from(id.minor),
        id.inode,
        u64::from(id.generation),
    ] {
        put(out, value);
    }
}

fn decode_id(bytes: &mut Bytes<'_>) -> Result<FileId, Malformed> {
    Ok(FileId {
        major: bytes.get_u32()?,
        minor: bytes.get_u32()?,
        inode: bytes.get()?,
        generation: bytes.get_u32()?,
    })
}

fn text(bytes: &mut Bytes<'_>) -> Result<String, Malformed> {
    Ok(String::from_utf8_lossy(bytes.get_bytes(MAX_TEXT)?).into_owned())
}
