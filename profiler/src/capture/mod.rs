//! The privileged half: loads, attaches and drains; parses no file of the recorded program.

pub mod attach;
pub mod btf;
pub mod channel;
pub mod kallsyms;
pub mod link;
pub mod load;
pub mod mappings;
pub mod maps;
pub mod perf;
pub mod procfs;
pub mod wire;

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn loads() {
        let t=std::time::Instant::now();
        let mut c = load::settings();
        let b = btf::Btf::of_kernel().unwrap();
        let m = btf::locate(&b, &mut c);
        println!("{m:?} {c:?} {:?}", t.elapsed());
        c.stack_copy=65536;
        let e = load::load(&c, load::Sizes::for_machine(2, 100)).unwrap();
        println!("{:?}", t.elapsed());
        let mut h = attach::attach(e, &[0,1]).unwrap();
        println!("{:?}", t.elapsed());
        attach::sample(&mut h, &[0,1], 1000).unwrap();
        println!("{:?}", t.elapsed());
        for s in &h.status { println!("{s:?}"); }
    }
}
