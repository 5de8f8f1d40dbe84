//! The det_post program: `det_post --help` tells everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    det_post::cli::main()
}
