//! The `ngmi` command.

fn main() -> std::process::ExitCode {
    profiler::cli::main()
}
