//! Finds libtslab by pkg-config or, with the feature `bundled`, compiles it. Uses no other crate, so that it builds offline.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Mutex;
use std::thread;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["PKG_CONFIG", "PKG_CONFIG_PATH", "CC", "CFLAGS", "AR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // docs.rs has no library, and links nothing.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    if env::var_os("CARGO_FEATURE_BUNDLED").is_some() {
        link_bundled();
    } else {
        link_installed();
    }
}

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&program).args(arguments).stderr(Stdio::piped()).output() {
        Ok(o) if o.status.success() => Ok(String::from_utf8_lossy(&o.stdout).trim().into()),
        Ok(o) => Err(String::from_utf8_lossy(&o.stderr).trim().into()),
        Err(e) => Err(format!("{program}: {e}")),
    }
}

fn link_installed() {
    let words = pkg_config(&["--libs", "tslab"]).unwrap_or_else(|why| {
        give_up(&format!(
            "libtslab was not found: {why}\nInstall it (Debian: libtslab-dev), name the folder of its tslab.pc in \
             PKG_CONFIG_PATH, or let the crate compile it: the feature `bundled`."
        ))
    });
    for word in words.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
}

fn give_up(why: &str) -> ! {
    eprintln!("{why}");
    process::exit(1);
}

const PARTS: [&str; 3] = ["shm", "proto", "libclient"];

/// The sources are in the crate, where `bindings/rust/package.py` puts them, or those of the tree that it is in.
fn link_bundled() {
    let (here, out) = (variable("CARGO_MANIFEST_DIR"), variable("OUT_DIR"));
    let carried = here.join("source");
    let root = if carried.is_dir() { carried } else { here.join("../../..") };
    let mut sources = Vec::new();
    for part in PARTS {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
        find_sources(&root.join(part), &mut sources);
    }
    if !root.join("proto/tslab.pb-c.c").exists() {
        sources.push(make_messages(&root, &out));
    }
    let objects = compile(&root, &out, &sources);
    let library = out.join("libtslab.a");
    let _ = fs::remove_file(&library); // of another version, which had other files
    run(Command::new(env::var_os("AR").unwrap_or_else(|| "ar".into())).arg("crs").arg(&library).args(objects));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=tslab");
    link_protobuf();
}

fn variable(name: &str) -> PathBuf {
    env::var_os(name).expect("cargo sets it").into()
}

/// One file of those in shm/arch/PROCESSOR is of this processor.
fn find_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| give_up(&format!("{}: {e}", folder.display())));
    let processor = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    for path in entries.map(|entry| entry.expect("an entry of a folder").path()) {
        let is_of_other = path.parent().map_or(false, |p| p.ends_with("shm/arch")) && !path.ends_with(&processor);
        if path.is_dir() && !is_of_other {
            find_sources(&path, found);
        } else if path.extension() == Some(OsStr::new("c")) {
            found.push(path);
        }
    }
}

/// The messages of the control protocol, where the sources are those of a tree that has not been built.
fn make_messages(root: &Path, out: &Path) -> PathBuf {
    let folder = out.join("proto");
    fs::create_dir_all(&folder).expect("a folder in OUT_DIR");
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    run(Command::new("protoc-c")
        .arg(option("proto_path", &root.join("proto")))
        .arg(option("c_out", &folder))
        .arg(root.join("proto/tslab.proto")));
    folder.join("tslab.pb-c.c")
}

fn compile(root: &Path, out: &Path, sources: &[PathBuf]) -> Vec<PathBuf> {
    let words = |name: &str, otherwise: &str| -> Vec<String> {
        env::var(name).unwrap_or_else(|_| otherwise.into()).split_whitespace().map(Into::into).collect()
    };
    let (compiler, flags) = (words("CC", "cc"), words("CFLAGS", ""));
    let one = |number: usize| {
        let object = out.join(format!("{number}.o"));
        run(Command::new(&compiler[0])
            .args(&compiler[1..])
            .args(["-std=gnu11", "-O2", "-fPIC", "-w", "-fvisibility=hidden", "-fno-strict-aliasing"])
            .args(["-D_GNU_SOURCE", "-DTSLAB_BUNDLED"])
            .arg(format!("-DTSLAB_VERSION=\"{}\"", env::var("CARGO_PKG_VERSION").expect("cargo sets it")))
            .arg("-I")
            .arg(root)
            .arg("-I")
            .arg(root.join("libclient"))
            .arg("-I")
            .arg(out)
            .args(&flags)
            .arg("-c")
            .arg(&sources[number])
            .arg("-o")
            .arg(&object));
        object
    };
    let n_jobs = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (next, objects) = (Mutex::new(0..sources.len()), Mutex::new(Vec::new()));
    let take = || next.lock().expect("no other job has panicked").next();
    thread::scope(|scope| {
        for _ in 0..n_jobs {
            scope.spawn(|| {
                while let Some(number) = take() {
                    let object = one(number);
                    objects.lock().expect("no other job has panicked").push(object);
                }
            });
        }
    });
    objects.into_inner().expect("no job has panicked")
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => give_up(&format!("{command:?}: {status}")),
        Err(e) => give_up(&format!("{command:?}: {e}")),
    }
}

/// The one library that libtslab needs: static where it can be had, so that programs need nothing but the C library.
fn link_protobuf() {
    let folder = pkg_config(&["--variable=libdir", "libprotobuf-c"]).unwrap_or_default();
    if !folder.is_empty() {
        println!("cargo:rustc-link-search=native={folder}");
    }
    let is_static = Path::new(&folder).join("libprotobuf-c.a").exists();
    println!("cargo:rustc-link-lib={}protobuf-c", if is_static { "static=" } else { "" });
}
