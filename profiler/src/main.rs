//! The `ngmi` command.

fn main() -> std::process::ExitCode {
    if let Err(error) = capture::proc::capabilities::settle() {
        profiler::terminal::fail(&error);
        return std::process::ExitCode::FAILURE;
    }
    capture::proc::dispositions::outlive_file_limit();
    profiler::cli::main()
}
