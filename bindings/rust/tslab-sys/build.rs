//! Finds libtslab by pkg-config. Uses no other crate, so that it builds offline.

use std::env;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    // docs.rs has no library, and links nothing.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    link_installed();
}

fn link_installed() {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&program).args(["--libs", "tslab"]).stderr(Stdio::piped()).output();
    let words = match output {
        Ok(o) if o.status.success() => String::from_utf8_lossy(&o.stdout).into_owned(),
        Ok(o) => missing(&String::from_utf8_lossy(&o.stderr)),
        Err(e) => missing(&format!("{program}: {e}")),
    };
    for word in words.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
}

fn missing(why: &str) -> ! {
    eprintln!(
        "libtslab was not found: {}\nInstall it (Debian: libtslab-dev), or name the folder of its tslab.pc in PKG_CONFIG_PATH.",
        why.trim()
    );
    std::process::exit(1);
}
