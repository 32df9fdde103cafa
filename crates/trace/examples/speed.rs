//! How fast traces are read and generated: `cargo run --release -p entresol-trace --example speed [TRACE]`.

use entresol_trace::generate::{Mix, TpccModel};
use entresol_trace::{Info, ReadOptions, Trace, read};
use std::path::Path;
use std::time::Instant;

fn timed(what: &str, work: impl FnOnce() -> Trace) -> Trace {
    let start = Instant::now();
    let trace = work();
    let seconds = start.elapsed().as_secs_f64();
    let rate = trace.requests.len() as f64 / seconds / 1e6;
    println!(
        "{what:10} {seconds:6.2} s  {:9} requests  {rate:6.1} M/s  {}",
        trace.requests.len(),
        trace.name
    );
    trace
}

fn main() {
    let possible = "the parameters are possible";
    let trace = match std::env::args_os().nth(1) {
        Some(path) => timed("read", || read(Path::new(&path), &ReadOptions::default()).expect("a trace")),
        None => timed("tpcc", || TpccModel::default().generate().expect(possible)),
    };
    let start = Instant::now();
    let info = Info::of(&trace);
    println!("info       {:6.2} s", start.elapsed().as_secs_f64());
    print!("{info}");
    timed("zipf", || {
        Mix { pages: 2_000_000, references: 5_000_000, ..Mix::default() }.generate().expect(possible)
    });
}
