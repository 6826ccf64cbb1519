//! The image that the kernel maps into every process: an ELF file that exists only in memory.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use symbols::elf::ElfFile;
use symbols::{BinaryRequest, Config, Symbolicator};

fn vdso() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (
        u64::from_str_radix(start, 16).unwrap(),
        u64::from_str_radix(end, 16).unwrap(),
    );
    let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
    fs::File::open("/proc/self/mem")
        .unwrap()
        .read_exact_at(&mut bytes, start)
        .unwrap();
    Some(bytes)
}

#[test]
fn functions_of_the_vdso() {
    let Some(bytes) = vdso() else {
        println!("skipped: this kernel does not map a vdso");
        return;
    };
    let elf = ElfFile::from_bytes(Arc::from(&*bytes)).unwrap();
    let soname = elf.dynamic().soname.unwrap_or_default();
    assert!(soname.to_string_lossy().starts_with("linux-vdso"), "{soname:?}");
    assert!(
        elf.section(".eh_frame")
            .is_some_and(|section| !section.bytes.is_empty())
    );

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vdso");
    fs::write(&path, &bytes).unwrap();
    let text = elf.section(".text").unwrap().svma;
    let addresses: Vec<u32> = (text.start..text.end)
        .map(|svma| u32::try_from(svma - elf.base_svma()).unwrap())
        .collect();
    let request = BinaryRequest {
        open_path: path.clone(),
        path,
        build_id: elf.build_id().to_vec(),
    };
    let names = Symbolicator::new(Config::default())
        .unwrap()
        .resolve(&request, &addresses)
        .unwrap();
    let has = |name: &str| names.iter().flatten().any(|found| found.symbol == name);
    // x86 has the alias `clock_gettime`; arm64 has `__kernel_clock_gettime`.
    assert!(
        ["clock_gettime", "__vdso_clock_gettime", "__kernel_clock_gettime"]
            .into_iter()
            .any(has),
        "{names:?}"
    );
}
