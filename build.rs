//! Lists the head files of `config/heads`, which the program embeds.
#![allow(missing_docs, reason = "a program without an interface")]

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("config/heads");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut heads = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let (Some(name), Some("yaml")) =
            (path.file_stem(), path.extension().and_then(|e| e.to_str()))
        {
            heads.push(format!("({name:?}, include_str!({path:?})),\n"));
        }
    }
    heads.sort();
    fs::write(Path::new(&env::var("OUT_DIR")?).join("heads.rs"), format!("&[{}]", heads.concat()))?;
    Ok(())
}
