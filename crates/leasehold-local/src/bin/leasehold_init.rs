//! The init of local sandboxes as a program of its own, for tests and for embedders whose own binary cannot
//! call `leasehold_init::run_if_requested`.

fn main() -> std::process::ExitCode {
    leasehold_init::run_if_requested();
    eprintln!("leasehold-init is started by Leasehold inside a sandbox; it does nothing by itself");
    std::process::ExitCode::from(125)
}
