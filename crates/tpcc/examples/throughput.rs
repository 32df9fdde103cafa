//! Loads a database into memory devices, runs clients on it and prints what it took: the cost of the code
//! itself.
//!
//! `cargo run --release -p entresol-tpcc --example throughput -- [warehouses] [clients] [transactions of
//! each] [frames]`

use entresol_device::MemoryDevice;
use entresol_engine::DiskLayer;
use entresol_runtime::sim::{SimConfig, Simulation};
use entresol_store::{Options, Parts, Store};
use entresol_tpcc::consistency::{Depth, check, digest};
use entresol_tpcc::{LoadConfig, RunConfig, Scale, Seed, load, run};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|argument| argument.parse()).collect::<Result<_, _>>()?;
    let argument = |at: usize, default: u64| arguments.get(at).copied().unwrap_or(default);
    let (warehouses, clients, transactions) =
        (argument(0, 1) as u32, argument(1, 50) as u32, argument(2, 1_000));
    let frames = argument(3, 60_000) as usize;
    let simulation = Simulation::new(SimConfig { seed: 1, ..SimConfig::default() });
    simulation
        .run(move || measure(warehouses, clients, transactions, frames).map_err(|error| error.to_string()))
        .unwrap()?;
    Ok(())
}

fn measure(warehouses: u32, clients: u32, transactions: u64, frames: usize) -> Result<(), Box<dyn Error>> {
    let disk_bytes = u64::from(warehouses) * (160 << 20) + (64 << 20);
    let disk = Arc::new(MemoryDevice::new("disk", disk_bytes));
    let log = Arc::new(MemoryDevice::new("log", 256 << 20));
    let options = Options { frames, ..Options::default() };
    let store = Store::create(Parts { layer: DiskLayer::create(disk, options.page_bytes)?, log }, options)?;

    let began = Instant::now();
    let config = LoadConfig { scale: Scale::standard(warehouses), seed: Seed(1) };
    let database = load(&store, &config, &mut |_| ())?;
    println!("load: {:.2?}, {} pages", began.elapsed(), store.pages());

    let began = Instant::now();
    println!("consistency: {} in {:.2?}", check(&database, Depth::Full)?, began.elapsed());

    let before = store.metrics();
    let config =
        RunConfig { transactions_per_client: Some(transactions), ..RunConfig::new(clients, Seed(1)) };
    let began = Instant::now();
    let statistics = run(&database, &config, None)?;
    let elapsed = began.elapsed();
    let after = store.metrics();
    print!("{statistics}");
    let committed = statistics.committed();
    println!(
        "run: {committed} transactions in {elapsed:.2?} of real time: {:.0} a second, {:.1} us each; \
         {:.1} fixes and {:.0} log bytes each; {} pages",
        committed as f64 / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e6 / committed as f64,
        (after.fixes - before.fixes) as f64 / committed as f64,
        (after.log_bytes - before.log_bytes) as f64 / committed as f64,
        store.pages(),
    );

    let began = Instant::now();
    let report = check(&database, Depth::Full)?;
    println!("consistency: {report} in {:.2?}", began.elapsed());
    let began = Instant::now();
    println!("digest: {:016x} in {:.2?}", digest(&database)?, began.elapsed());
    Ok(())
}
