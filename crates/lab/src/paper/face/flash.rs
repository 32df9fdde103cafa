//! FaCE's claims about the flash device, an MLC drive (table 4).

use super::grid::{FACE, FACE_FAMILY, GR, GSC, Grid, LC, MLC_SIZES, TREND, Trend, percent, ratio_check};
use super::{FACE_UTILISATION_MAX, GSC_OVER_LC_IOPS_AT_20, GSC_UTILISATION_MAX, LC_UTILISATION_MIN};
use crate::paper::{Check, Claim, Statement, Tolerance};
use crate::report::whole;
use crate::result::TpccResult;

pub(super) const CLAIMS: &[Claim<[TpccResult]>] = &[
    Claim {
        statement: Statement {
            id: "face.table4a.lc-utilisation",
            source: "FaCE table 4a",
            says: "lc keeps the flash device above 90 % utilisation",
            tolerance: Tolerance::Above(LC_UTILISATION_MIN),
            needs: "--system lc --flash-device mlc",
            set_on_it: Some(
                "the length of a garbage-collection episode of the modelled drive: set on lc at 4 %, 4,534 page I/Os a second at \
                 92.6 %",
            ),
            reason: Some("few clients on a small database do not keep the flash device busy all the time"),
            ..Statement::BASE
        },
        judge: lc_utilisation,
    },
    Claim {
        statement: Statement {
            id: "face.table4b.lc-iops-fall",
            source: "FaCE table 4b",
            says: "lc's flash I/Os a second fall with the flash size",
            tolerance: TREND,
            needs: MLC_SIZES,
            set_on_it: Some(
                "the reach of the modelled drive's mapping cache, which was chosen by the paper's decline",
            ),
            reason: Some(
                "the modelled drive's garbage collection profits from hot pages that are overwritten soon; only under \
                 evenly spread writes does its cost grow with the region",
            ),
            ..Statement::BASE
        },
        judge: lc_iops_fall,
    },
    Claim {
        statement: Statement {
            id: "face.table4a.face-utilisation",
            source: "FaCE table 4a",
            says: "face, face-gr and face-gsc keep the flash device below 85 % utilisation",
            tolerance: Tolerance::Below(FACE_UTILISATION_MAX),
            needs: "--system face,face-gr,face-gsc --flash-device mlc",
            reason: Some(
                "with a large cache nearly every miss of this small database is served by flash, which then sets the pace \
                 instead of the disks",
            ),
            ..Statement::BASE
        },
        judge: face_utilisation,
    },
    Claim {
        statement: Statement {
            id: "face.table4a.gsc-utilisation",
            source: "FaCE table 4a, §5.3",
            says: "face-gsc never utilises the flash device more than 76 %",
            tolerance: Tolerance::AtMost(GSC_UTILISATION_MAX),
            needs: "--system face-gsc --flash-device mlc",
            reason: Some(
                "with a large cache nearly every miss of this small database is served by flash, which then sets the pace \
                 instead of the disks",
            ),
            ..Statement::BASE
        },
        judge: gsc_utilisation,
    },
    Claim {
        statement: Statement {
            id: "face.table4a.gr-below-face",
            source: "FaCE table 4a",
            says: "face-gr utilises the flash device less than face at every size",
            needs: "--system face,face-gr --flash-device mlc",
            reason: Some("with a large cache the device is nearly always busy under both"),
            ..Statement::BASE
        },
        judge: |results, _| gr_below_face(results),
    },
    Claim {
        statement: Statement {
            id: "face.table4b.face-iops-rise",
            source: "FaCE table 4b",
            says: "the face family's flash I/Os a second rise with the flash size",
            tolerance: TREND,
            needs: MLC_SIZES,
            reason: Some("the flash device is at its limit with the largest caches already"),
            ..Statement::BASE
        },
        judge: face_iops_rise,
    },
    Claim {
        statement: Statement {
            id: "face.table4b.gsc-over-lc",
            source: "FaCE table 4b",
            says: "face-gsc does at least 4 times lc's flash I/Os a second at 20 %",
            tolerance: Tolerance::AtLeast(GSC_OVER_LC_IOPS_AT_20),
            needs: "--system lc,face-gsc --flash-percent 20 --flash-device mlc",
            reason: Some(
                "lc keeps up better on the modelled drive, whose garbage collection profits from hot pages",
            ),
            ..Statement::BASE
        },
        judge: gsc_over_lc,
    },
];

fn lc_utilisation(results: &[TpccResult], tolerance: Tolerance) -> Vec<Check> {
    let check = |r: &TpccResult| Check {
        agrees: tolerance.allows(r.flash_utilisation),
        numbers: format!("{} at {} %", percent(r.flash_utilisation), r.flash_percent),
    };
    Grid::only_on(results, "mlc").rows(LC).into_iter().map(check).collect()
}

fn lc_iops_fall(results: &[TpccResult], tolerance: Tolerance) -> Vec<Check> {
    Grid::only_on(results, "mlc").trend(&[LC], |r| r.flash_iops, Trend::Falls, tolerance, whole)
}

fn face_utilisation(results: &[TpccResult], tolerance: Tolerance) -> Vec<Check> {
    let check = |r: &TpccResult| Check {
        agrees: tolerance.allows(r.flash_utilisation),
        numbers: format!("{} {} at {} %", r.system, percent(r.flash_utilisation), r.flash_percent),
    };
    let grid = Grid::only_on(results, "mlc");
    FACE_FAMILY.iter().flat_map(|system| grid.rows(*system)).map(check).collect()
}

fn gsc_utilisation(results: &[TpccResult], tolerance: Tolerance) -> Vec<Check> {
    let check = |r: &TpccResult| Check {
        agrees: tolerance.allows(r.flash_utilisation),
        numbers: format!("{} at {} %", percent(r.flash_utilisation), r.flash_percent),
    };
    Grid::only_on(results, "mlc").rows(GSC).into_iter().map(check).collect()
}

fn gr_below_face(results: &[TpccResult]) -> Vec<Check> {
    let check = |(size, [gr, face]): (f64, [&TpccResult; 2])| Check {
        agrees: gr.flash_utilisation < face.flash_utilisation,
        numbers: format!(
            "{} and {} at {size} %",
            percent(gr.flash_utilisation),
            percent(face.flash_utilisation)
        ),
    };
    Grid::only_on(results, "mlc").sizes([GR, FACE]).into_iter().map(check).collect()
}

fn face_iops_rise(results: &[TpccResult], tolerance: Tolerance) -> Vec<Check> {
    Grid::only_on(results, "mlc").trend(&FACE_FAMILY, |r| r.flash_iops, Trend::Rises, tolerance, whole)
}

fn gsc_over_lc(results: &[TpccResult], tolerance: Tolerance) -> Vec<Check> {
    let grid = Grid::only_on(results, "mlc");
    let pair = grid.at(GSC, 20.0).zip(grid.at(LC, 20.0));
    pair.map(|(gsc, lc)| ratio_check(gsc.flash_iops, lc.flash_iops, tolerance)).into_iter().collect()
}
