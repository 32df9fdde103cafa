//! `entresol trace info`, `convert` and `generate`.

use crate::args::{ConvertArgs, GenerateArgs, InfoArgs, Kind, Trace as What};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::progress::{Counted, Written};
use entresol_runtime::say::thousands;
use entresol_trace::generate::{self, Loops, Mix, Popularity, Scans, Source, Take, TpccModel};
use entresol_trace::{
    Compression, Format, Info, Op, ReadOptions, SampledTrace, Trace, TraceError, Watch, files_of,
};
use std::cell::Cell;
use std::io;
use std::path::Path;

/// References between two looks at the bar.
const SHOWN_EVERY: u64 = 1 << 16;

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
    let trace = entresol_trace::read(path, &watched(options)).map_err(refused)?;
    tell_left_out(&trace);
    Ok(trace)
}

/// As [`read()`], the samples that the options ask for.
pub fn read_samples(path: &Path, options: &ReadOptions) -> Result<Vec<SampledTrace>, Failure> {
    let samples = entresol_trace::read_samples(path, &watched(options)).map_err(refused)?;
    samples.iter().take(1).for_each(|sample| tell_left_out(&sample.trace));
    Ok(samples)
}

/// The options, with a bar of the file that is read.
fn watched(options: &ReadOptions) -> ReadOptions {
    let bar = Counted::of_bytes("reading");
    let watch = Watch::new(move |done, all| bar.show(done, all));
    ReadOptions { watch: Some(watch), ..options.clone() }
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
    let loops = Loops {
        pages: args.loop_pages.clone(),
        run_pages: args.run_pages,
        references: args.references,
        page_bytes: args.page_bytes,
        references_per_s: args.rate,
        seed: args.seed,
    };
    match args.kind {
        Kind::Loops => made((&loops, Loops::generate), args, &out),
        Kind::Tpcc => made((&tpcc, TpccModel::generate), args, &out),
        Kind::Uniform => made((&mix(args, Popularity::Uniform), Mix::generate), args, &out),
        Kind::Zipf => made((&mix(args, Popularity::Zipf { skew: args.skew }), Mix::generate), args, &out),
        Kind::Pareto => made((&mix(args, Popularity::Pareto { h: args.pareto }), Mix::generate), args, &out),
        Kind::Sequential => made((&mix(args, Popularity::Sequential), Mix::generate), args, &out),
    }
}

/// Makes the whole trace in memory.
type InMemory<S> = fn(&S) -> Result<Trace, TraceError>;

/// Writes what `source` makes: as it is made, if the format allows that, so that memory is for its pages
/// only.
fn made<S: Source>(
    (source, in_memory): (&S, InMemory<S>),
    args: &GenerateArgs,
    out: &OutputFile,
) -> Result<(), Failure> {
    let format = args.to;
    source.check().map_err(refused)?;
    if format != Format::Entresol {
        return write(&in_memory(source).map_err(refused)?, format, out);
    }
    let compression = Compression::of(out.path());
    let bar = Counted::new("making", "references");
    let source = Shown { source, bar, references: args.references, made: Cell::new(0) };
    let (requests, pages) =
        out.write_with(|file| Ok(generate::write_as_made(&source, out.path(), compression, file)?))?;
    drop(source);
    written(requests, pages, format, out)
}

/// A source that shows how far it is. It makes all records twice: a half of the bar each time.
struct Shown<'a, S> {
    source: &'a S,
    bar: Counted,
    references: u64,
    made: Cell<u64>,
}

impl<S: Source> Source for Shown<'_, S> {
    fn name(&self) -> String {
        self.source.name()
    }

    fn page_bytes(&self) -> u32 {
        self.source.page_bytes()
    }

    fn objects(&self) -> Vec<&'static str> {
        self.source.objects()
    }

    fn check(&self) -> Result<(), TraceError> {
        self.source.check()
    }

    fn each(&self, take: &mut Take<'_>) -> io::Result<()> {
        self.source.each(&mut |page, op, time_us| {
            let made = self.made.get() + u64::from(op != Op::Dirty);
            self.made.set(made);
            if made.is_multiple_of(SHOWN_EVERY) {
                self.bar.show(made / 2, self.references);
            }
            take(page, op, time_us)
        })
    }
}

/// Reports the written trace.
fn written(requests: u64, pages: u64, format: Format, out: &OutputFile) -> Result<(), Failure> {
    let shown = out.path().display();
    output::print(&format!(
        "{shown}: {} requests to {} pages, {format}\n",
        thousands(requests),
        thousands(pages)
    ))
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
    let bar = Written::begin();
    let losses = out.write_with(|file| {
        Ok(entresol_trace::write(trace, format, out.path(), compression, bar.to(file))?)
    })?;
    drop(bar);
    let lost = losses.to_string();
    if !lost.is_empty() {
        output::notice(&format!("the {format} format cannot hold all of the trace: {lost}"));
    }
    written(trace.requests.len() as u64, trace.unique_pages() as u64, format, out)
}
