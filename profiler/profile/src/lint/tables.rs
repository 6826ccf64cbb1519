//! Checks the tables that all threads share.

use super::problems::{Missing, Problems};
use crate::format::{RawFrames, RawProfile, RawShared};

/// Checks lengths, references and order of every shared table.
pub fn shared(profile: &RawProfile<'_>, problems: &mut Problems) {
    lengths(&profile.shared, problems);
    references(profile, problems);
    for (offset, row) in profile.shared.stack_table.prefix_offset.iter().zip(0..) {
        if !offset.is_some_and(|offset| (0..=row).contains(&offset)) {
            problems.add("stackTable.prefixOffset", &"a caller is not before its callee");
        }
    }
    frames(profile, &profile.shared.frame_table, problems);
}

fn lengths(shared: &RawShared, problems: &mut Problems) {
    let stacks = &shared.stack_table;
    let columns = [
        ("frame", stacks.frame.len()),
        ("prefixOffset", stacks.prefix_offset.len()),
    ];
    problems.lengths("stackTable", stacks.length, &columns);

    let frames = &shared.frame_table;
    let columns = [
        ("address", frames.address.len()),
        ("lib", frames.lib.len()),
        ("inlineDepth", frames.inline_depth.len()),
        ("category", frames.category.len()),
        ("subcategory", frames.subcategory.len()),
        ("func", frames.func.len()),
        ("nativeSymbol", frames.native_symbol.len()),
        ("line", frames.line.len()),
    ];
    problems.lengths("frameTable", frames.length, &columns);

    let funcs = &shared.func_table;
    let columns = [
        ("name", funcs.name.len()),
        ("resource", funcs.resource.len()),
        ("source", funcs.source.len()),
    ];
    problems.lengths("funcTable", funcs.length, &columns);

    let symbols = &shared.native_symbols;
    let columns = [
        ("libIndex", symbols.lib_index.len()),
        ("address", symbols.address.len()),
        ("name", symbols.name.len()),
        ("functionSize", symbols.function_size.len()),
    ];
    problems.lengths("nativeSymbols", symbols.length, &columns);

    let resources = &shared.resource_table;
    problems.lengths("resourceTable", resources.length, &[("name", resources.name.len())]);
    problems.lengths(
        "sources",
        shared.sources.length,
        &[
            ("filename", shared.sources.filename.len()),
            ("content", shared.sources.content.len()),
        ],
    );
}

fn references(profile: &RawProfile<'_>, problems: &mut Problems) {
    use Missing::{MinusOne, Never, Null};
    let shared = &profile.shared;
    let strings = ("stringArray", shared.string_array.len());
    let libs = ("libs", profile.libs.len());
    let frames = ("frameTable", shared.frame_table.length);
    let funcs = ("funcTable", shared.func_table.length);
    let resources = ("resourceTable", shared.resource_table.length);
    let symbols = ("nativeSymbols", shared.native_symbols.length);
    let sources = ("sources", shared.sources.length);
    let categories = ("categories", profile.meta.categories.len());
    let columns = [
        ("stackTable.frame", &shared.stack_table.frame, Never, frames),
        ("frameTable.lib", &shared.frame_table.lib, MinusOne, libs),
        ("frameTable.category", &shared.frame_table.category, Null, categories),
        ("frameTable.func", &shared.frame_table.func, Never, funcs),
        (
            "frameTable.nativeSymbol",
            &shared.frame_table.native_symbol,
            Null,
            symbols,
        ),
        ("funcTable.name", &shared.func_table.name, Never, strings),
        ("funcTable.resource", &shared.func_table.resource, MinusOne, resources),
        ("funcTable.source", &shared.func_table.source, Null, sources),
        ("resourceTable.name", &shared.resource_table.name, Never, strings),
        ("nativeSymbols.libIndex", &shared.native_symbols.lib_index, Never, libs),
        ("nativeSymbols.name", &shared.native_symbols.name, Never, strings),
        ("sources.filename", &shared.sources.filename, Never, strings),
    ];
    for (column, indices, missing, target) in columns {
        problems.references(column, indices, missing, target);
    }
}

fn frames(profile: &RawProfile<'_>, frames: &RawFrames, problems: &mut Problems) {
    for (category, subcategory) in frames.category.iter().zip(&frames.subcategory) {
        let category = category.and_then(|index| profile.meta.categories.get(usize::try_from(index).ok()?));
        let rows = category.map_or(1, |category| category.subcategories.len());
        problems.references(
            "frameTable.subcategory",
            &[*subcategory],
            Missing::Null,
            ("the category", rows),
        );
    }
    if frames
        .address
        .iter()
        .any(|address| address.is_none_or(|address| address < -1))
    {
        problems.add("frameTable.address", &"neither an address nor −1");
    }
    if frames
        .inline_depth
        .iter()
        .any(|depth| depth.is_none_or(|depth| depth < 0))
    {
        problems.add("frameTable.inlineDepth", &"not a depth");
    }
}
