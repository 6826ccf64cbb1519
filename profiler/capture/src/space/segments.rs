//! Which segment of a file the bytes of a mapping belong to. Linkers pack segments: the end of one and the start of
//! the next share a page of the file, and a mapping of either shows bytes of both.

use std::ops::Range;

use base::event::Segment;

/// Splits `mapped`, bytes of a file, where a segment starts. For each part: its start in the file, and the stated
/// address of that byte if a segment contains it. The kernel maps whole pages of `page` bytes: a mapping shows slightly
/// more than its segment.
pub fn parts(segments: &[Segment], mapped: Range<u64>, page: u64) -> Vec<(u64, Option<u64>)> {
    let filled = segments.iter().filter(|segment| segment.file_size > 0);
    let mut starts: Vec<u64> = filled
        .map(|segment| segment.offset)
        .filter(|offset| mapped.start < *offset && *offset < mapped.end)
        .chain([mapped.start])
        .collect();
    starts.sort_unstable();
    starts.dedup();
    starts
        .into_iter()
        .map(|start| (start, svma(segments, start, page)))
        .collect()
}

/// The stated address of a byte of the file: from the segment that contains it, or else from one that shares its
/// page.
fn svma(segments: &[Segment], offset: u64, page: u64) -> Option<u64> {
    let holds = |segment: &&Segment| {
        let end = segment.offset.saturating_add(segment.file_size);
        segment.offset <= offset && offset < end
    };
    let shares_page = |segment: &&Segment| {
        let start = segment.offset - segment.offset % page;
        let end = segment.offset.saturating_add(segment.file_size);
        start <= offset && end.checked_next_multiple_of(page).is_none_or(|end| offset < end)
    };
    let segment = (segments.iter().find(holds)).or_else(|| segments.iter().find(shares_page))?;
    Some(segment.svma.wrapping_add(offset.wrapping_sub(segment.offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(offset: u64, svma: u64, file_size: u64) -> Segment {
        Segment {
            offset,
            svma,
            file_size,
        }
    }

    /// lld puts `.text_far` before `.text` in this way.
    #[test]
    fn bytes_belong_to_their_segment() {
        let packed = [segment(0x1000, 0x80_0000, 0xcb), segment(0x14a0, 0x80_24a0, 0x230)];
        let both = [(0x1000, Some(0x80_0000)), (0x14a0, Some(0x80_24a0))];
        assert_eq!(parts(&packed, 0x1000..0x2000, 0x1000), both);
        assert_eq!(parts(&packed, 0x1600..0x2000, 0x1000), [(0x1600, Some(0x80_2600))]);
    }

    /// Segments of arm64 are aligned for pages of 64 KiB, and packed in the file: with smaller pages a mapping shows less of both.
    #[test]
    fn a_page_of_64_kib_shows_several_segments() {
        let packed = [segment(0, 0x40_0000, 0x9_f123), segment(0x9_f130, 0x4a_f130, 0x2000)];
        let code = [(0, Some(0x40_0000)), (0x9_f130, Some(0x4a_f130))];
        assert_eq!(parts(&packed, 0..0xa_0000, 0x1_0000), code);
        let data = [(0x9_0000, Some(0x49_0000)), (0x9_f130, Some(0x4a_f130))];
        assert_eq!(parts(&packed, 0x9_0000..0xb_0000, 0x1_0000), data);
        // The page's rest, after the last byte of the segment.
        assert_eq!(
            parts(&packed, 0xa_f000..0xb_0000, 0x1_0000),
            [(0xa_f000, Some(0x4b_f000))]
        );
        assert_eq!(parts(&packed, 0xa_f000..0xb_0000, 0x1000), [(0xa_f000, None)]);
        assert_eq!(parts(&packed, 0xb_0000..0xc_0000, 0x1_0000), [(0xb_0000, None)]);
    }

    #[test]
    fn the_rest_of_a_page_belongs_to_its_segment() {
        let one = [segment(0x1234, 0x234, 0x800)];
        let lead = [(0x1000, Some(0)), (0x1234, Some(0x234))];
        assert_eq!(parts(&one, 0x1000..0x2000, 0x1000), lead);
        assert_eq!(parts(&one, 0x2000..0x3000, 0x1000), [(0x2000, None)]);
        assert_eq!(parts(&one, 0x2000..0x3000, 0x4000), [(0x2000, Some(0x1000))]);
        assert_eq!(
            parts(&[segment(0x1800, 0, 0)], 0x1000..0x2000, 0x1000),
            [(0x1000, Some(0xffff_ffff_ffff_f800))]
        );
    }
}
