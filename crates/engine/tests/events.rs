//! What an operator is told, and that nothing is told of fetches and evictions.

use entresol_core::{Lsn, PageId, PolicyKind, Position};
use entresol_device::MemoryDevice;
use entresol_engine::{FlashTier, Layer, TierOptions, Victim};
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Where the lines go.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// What was told while `work` ran.
    fn during(work: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(std::mem::take(&mut *lines.0.lock().unwrap())).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn opening_refusing_and_closing_are_told_in_a_line_each() {
    let options = TierOptions::new(PolicyKind::FaceGsc, 4096);
    let flash = || Arc::new(MemoryDevice::new("flash", 32 << 20));
    let (cache, disk) = (flash(), Arc::new(MemoryDevice::new("disk", 8 << 20)));
    let told = Lines::during(|| {
        let tier = FlashTier::create(cache.clone(), disk.clone(), options.clone()).unwrap();
        let mut page = vec![0; 4096];
        for number in 0..100 {
            let id = PageId::new(0, number);
            entresol_format::page::seal(&mut page, id, Position(0));
            let victim = Victim { page: id, dirty: true, fdirty: true, lsn: Lsn(1) };
            tier.evict(victim, &page).unwrap();
            tier.fetch(id, &mut page).unwrap();
        }
        tier.close().unwrap();
    });
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains("flash cache opened") && told[0].contains("face-gsc"), "{told:#?}");
    assert!(told[1].contains("INFO") && told[1].contains("flash cache closed"), "{told:#?}");
    let told = Lines::during(|| assert!(FlashTier::open(flash(), disk, options.clone()).is_err()));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("WARN") && told[0].contains("not opened"), "{told:#?}");
}
