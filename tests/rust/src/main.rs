//! Programs that the tests of the Rust crates run: `main NAME SOCKET`.

mod actor;
mod checks;
#[cfg(feature = "extras")]
mod extras;
mod kills;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match (arguments[1].as_str(), &arguments[2..]) {
        ("actor", [socket]) => actor::run(socket),
        ("checks", [socket]) => checks::run(socket),
        #[cfg(feature = "extras")]
        ("extras", [socket]) => extras::run(socket),
        ("kill-worker", [socket]) => kills::work(socket),
        ("kill-sum", [socket]) => kills::tell_sum(socket),
        (name, _) => panic!("there is no program {name:?} with these arguments"),
    }
}
