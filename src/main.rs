//! The program `det_post`; see `det_post --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    det_post::cli::main()
}
