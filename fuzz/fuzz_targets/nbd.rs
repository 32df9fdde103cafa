#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| entresol_testkit::fuzz::run("nbd", input));
