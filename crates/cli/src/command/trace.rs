//! `entresol trace info`, `convert` and `generate`.

use crate::args::{ConvertArgs, GenerateArgs, InfoArgs, Kind, Trace as What};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use entresol_trace::generate::{self, Mix, Popularity, Scans, Source, TpccModel};
use entresol_trace::{Compression, Format, Info, ReadOptions, Trace, TraceError, files_of};
use std::path::Path;

/// Carries the request out.
pub fn run(what: &What) -> Result<(), Failure> {
    match what {
        What::Info(args) => info(args),
        What::Convert(args) => convert(args),
        What::Generate(args) => make(args),
    }
}

/// Reads a trace; whatever keeps it from being read is bad input.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Trace, Failure> {
    let trace = entresol_trace::read(path, options).map_err(refused)?;
    tell_left_out(&trace);
    Ok(trace)
}

/// Says how many requests are not in a trace, if there are any.
pub fn tell_left_out(trace: &Trace) {
    if trace.empty_requests > 0 {
        output::notice(&format!(
            "{}: {} requests of no bytes were left out; they touch no page (a GET that missed, say)",
            trace.name, trace.empty_requests
        ));
    }
}

/// What keeps a trace from being read or made is bad input.
pub fn refused(error: TraceError) -> Failure {
    Failure::input(error.to_string())
}

fn info(args: &InfoArgs) -> Result<(), Failure> {
    let options = args.read.options()?;
    let inputs = files_of(&args.file, &options);
    let json = args.json.as_deref().map(|path| OutputFile::prepare("--json", path, &inputs)).transpose()?;
    let info = Info::of(&read(&args.file, &options)?);
    if let Some(json) = json {
        let mut bytes = serde_json::to_vec_pretty(&info).map_err(anyhow::Error::from)?;
        bytes.push(b'\n');
        json.write(&bytes)?;
    }
    output::print(&info.to_string())
}

fn convert(args: &ConvertArgs) -> Result<(), Failure> {
    let options = args.read.options()?;
    let out = OutputFile::prepare("OUTPUT", &args.output, &files_of(&args.input, &options))?;
    let trace = read(&args.input, &options)?;
    write(&trace, args.to, &out)
}

fn make(args: &GenerateArgs) -> Result<(), Failure> {
    let out = OutputFile::prepare("--out", &args.out, &[])?;
    let tpcc = TpccModel {
        warehouses: args.warehouses,
        clients: args.clients,
        references: args.references,
        references_per_s: args.rate,
        seed: args.seed,
    };
    match args.kind {
        Kind::Tpcc => made(&tpcc, TpccModel::generate, args.to, &out),
        Kind::Uniform => made(&mix(args, Popularity::Uniform), Mix::generate, args.to, &out),
        Kind::Zipf => made(&mix(args, Popularity::Zipf { skew: args.skew }), Mix::generate, args.to, &out),
        Kind::Pareto => made(&mix(args, Popularity::Pareto { h: args.pareto }), Mix::generate, args.to, &out),
        Kind::Sequential => made(&mix(args, Popularity::Sequential), Mix::generate, args.to, &out),
    }
}

/// Writes what `source` makes: as it is made, if the format allows that, so that memory is for its pages
/// only.
fn made<S: Source>(
    source: &S,
    in_memory: fn(&S) -> Result<Trace, TraceError>,
    format: Format,
    out: &OutputFile,
) -> Result<(), Failure> {
    source.check().map_err(refused)?;
    if format != Format::Entresol {
        return write(&in_memory(source).map_err(refused)?, format, out);
    }
    let compression = Compression::of(out.path());
    let (requests, pages) =
        out.write_with(|file| Ok(generate::write_as_made(source, out.path(), compression, file)?))?;
    written(requests, pages, format, out)
}

/// Reports the written trace.
fn written(requests: u64, pages: u64, format: Format, out: &OutputFile) -> Result<(), Failure> {
    let shown = out.path().display();
    output::print(&format!("{shown}: {requests} requests to {pages} pages, {format}\n"))
}

fn mix(args: &GenerateArgs, popularity: Popularity) -> Mix {
    let scan_pages = args.scan_pages.unwrap_or(args.pages.div_ceil(100));
    let scans = Scans { share: args.scan_percent / 100.0, pages: scan_pages };
    Mix {
        popularity,
        pages: args.pages,
        references: args.references,
        write_share: args.write_percent / 100.0,
        scans: (args.scan_percent > 0.0).then_some(scans),
        phases: args.phases,
        adjacent: args.adjacent,
        page_bytes: args.page_bytes,
        references_per_s: args.rate,
        seed: args.seed,
    }
}

/// Writes a trace, and reports it and its losses.
pub fn write(trace: &Trace, format: Format, out: &OutputFile) -> Result<(), Failure> {
    let compression = Compression::of(out.path());
    let losses =
        out.write_with(|file| Ok(entresol_trace::write(trace, format, out.path(), compression, file)?))?;
    let lost = losses.to_string();
    if !lost.is_empty() {
        output::notice(&format!("the {format} format cannot hold all of the trace: {lost}"));
    }
    written(trace.requests.len() as u64, trace.unique_pages() as u64, format, out)
}
