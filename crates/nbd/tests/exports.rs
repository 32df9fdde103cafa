//! Which exports can be offered, and which one a name means.

use entresol_nbd::{BlockSizes, Export, ExportFault, Exports, REQUEST_BYTES_MAX};

fn fault(export: Export) -> Option<ExportFault> {
    Exports::new(vec![export]).err().map(|error| error.fault)
}

#[test]
fn impossible_exports_are_refused() {
    assert_eq!(fault(Export::new("", 0)), None);
    assert_eq!(fault(Export::new("a", i64::MAX as u64 - 511)), None);
    let bytes = |found| Some(ExportFault::Bytes { found, minimum: 512 });
    assert_eq!(fault(Export::new("a", 513)), bytes(513));
    assert_eq!(fault(Export::new("a", 1 << 63)), bytes(1 << 63));
    assert_eq!(fault(Export::new("x".repeat(4096), 512)), None);
    assert_eq!(fault(Export::new("x".repeat(4097), 512)), Some(ExportFault::Text));
    assert_eq!(fault(Export::new("a\0", 512)), Some(ExportFault::Text));
    let description = "a\0".to_owned();
    assert_eq!(fault(Export { description, ..Export::new("a", 512) }), Some(ExportFault::Text));
}

#[test]
fn impossible_block_sizes_are_refused() {
    let fault = |minimum, preferred, maximum| {
        let blocks = BlockSizes { minimum, preferred, maximum };
        fault(Export { blocks, ..Export::new("a", 1 << 20) })
    };
    for (minimum, preferred, maximum) in
        [(1, 512, 512), (512, 512, REQUEST_BYTES_MAX), (64 << 10, 64 << 10, 64 << 10), (512, 4096, 4608)]
    {
        assert_eq!(fault(minimum, preferred, maximum), None);
    }
    for (minimum, preferred, maximum) in [
        (0, 4096, 4096),
        (768, 4096, 4608),
        (128 << 10, 128 << 10, 128 << 10),
        (512, 4097, 8192),
        (1, 256, 4096),
        (4096, 2048, 8192),
        (512, 4096, 2048),
        (512, 4096, 4097),
        (512, 4096, REQUEST_BYTES_MAX + 512),
    ] {
        let found = BlockSizes { minimum, preferred, maximum };
        assert_eq!(fault(minimum, preferred, maximum), Some(ExportFault::BlockSizes { found }));
    }
}

#[test]
fn names_differ_and_the_empty_one_is_the_default() {
    let exports = |names: &[&str]| Exports::new(names.iter().map(|name| Export::new(*name, 512)).collect());
    let error = exports(&["a", "b", "a"]).unwrap_err();
    assert_eq!(error.fault, ExportFault::Twice);
    assert_eq!(error.to_string(), "export \"a\": two exports have this name");
    let found = |names, name| exports(names).unwrap().find(name);
    assert_eq!(found(&["a", "b"], "b"), Some(1));
    assert_eq!(found(&["a", "b"], "c"), None);
    assert_eq!(found(&["a", "b"], ""), Some(0));
    assert_eq!(found(&["a", ""], ""), Some(1));
    assert_eq!(found(&[], ""), None);
}
