//! Advice on traces of which the right answer is known.

use entresol_core::Cache;
use entresol_lab::advise::{Advice, AdviceError, Goal, Question, Reason, Recommendation, Sureness, advise};
use entresol_lab::replay::device::Catalogue;
use entresol_lab::replay::{Arrival, RunConfig};
use entresol_trace::Trace;
use entresol_trace::generate::{Mix, Popularity};

fn question(trace: &Trace, machine: &str, goal: Goal) -> Question {
    let catalogue = Catalogue::builtin();
    let machine = catalogue.machine(machine).expect("built in").clone();
    let flash_devices: Vec<_> =
        machine.flash.iter().map(|name| catalogue.flash(name).expect("built in").clone()).collect();
    let disk = catalogue.device(&machine.disk).expect("built in");
    let memory = catalogue.memory(&machine.memory).expect("built in");
    let requests = trace.requests.len();
    let base = RunConfig {
        dram_pages: 1,
        arrival: Arrival::Closed { clients: 4 },
        hit_ns: 2000,
        measure_from: requests / 4,
        ..RunConfig::new(None, (&flash_devices[0], disk), memory, 0..requests)
    };
    let caches = ["face-gsc", "lc"].map(|name| Cache::from_name(name).expect("a policy")).to_vec();
    Question { base, flash_devices, caches, goal, years_min: 0.0, database_bytes: None }
}

/// Ten thousand pages of 4 KiB, far fewer of them hot, one reference in five a write: DRAM of 5 % is much too
/// small.
fn skewed() -> Trace {
    Mix { pages: 10_000, references: 120_000, write_share: 0.2, ..Mix::default() }
        .generate()
        .expect("a possible mix")
}

/// Two thousand pages, all alike: DRAM that holds them all needs no flash, and whatever flash takes from it
/// is missed.
fn all_alike() -> Trace {
    Mix {
        popularity: Popularity::Uniform,
        pages: 2000,
        references: 60_000,
        write_share: 0.2,
        ..Mix::default()
    }
    .generate()
    .expect("a possible mix")
}

/// The price of so many pages of DRAM.
fn price_of(trace: &Trace, machine: &str, pages: f64) -> f64 {
    let catalogue = Catalogue::builtin();
    let memory = &catalogue.machine(machine).expect("built in").memory;
    let per_gb = catalogue.memory(memory).expect("built in").price_per_gb;
    pages * f64::from(trace.page_bytes) / 1e9 * per_gb
}

fn ask(trace: &Trace, question: &Question) -> Advice {
    advise(trace, question, &|_, _| {}).expect("a possible question")
}

#[test]
fn flash_pays_where_dram_is_too_small_for_what_is_hot() {
    let trace = skewed();
    let money = price_of(&trace, "today", 500.0);
    let advice = ask(&trace, &question(&trace, "today", Goal::Budget(money)));
    assert_eq!((advice.verdict, advice.reason), (Recommendation::Flash, Reason::Pays), "{}", advice.sentence);
    assert_eq!(advice.sureness, Sureness::Sure, "{}", advice.sentence);
    let best = &advice.best[0];
    assert!(best.flash_pages > 0 && best.gain.is_some_and(|gain| gain > 2.0), "{best:?}");
    assert!(advice.sentence.starts_with("Buy flash"), "{}", advice.sentence);
    for candidate in &advice.tried {
        assert!(candidate.money <= money * (1.0 + 1e-9), "beyond the budget: {candidate:?}");
        assert!(candidate.flash_pages > 0 || candidate.gain == Some(1.0), "{candidate:?}");
    }
    assert!(best.gain_in_halves.is_some() && best.energy_j.is_some() && best.p99_response_us > 0.0);
    assert!(advice.best.iter().any(|candidate| candidate.policy == "none"), "DRAM alone is among them");
    assert_eq!(advice, ask(&trace, &question(&trace, "today", Goal::Budget(money))), "the same answer again");
}

#[test]
fn a_larger_database_has_the_same_choice_at_its_own_size_and_price() {
    let trace = skewed();
    let money = price_of(&trace, "today", 500.0);
    let small = question(&trace, "today", Goal::Budget(money));
    let scale = 1024.0;
    let database_bytes = trace.footprint_bytes() as f64 * scale;
    let large =
        Question { goal: Goal::Budget(money * scale), database_bytes: Some(database_bytes), ..small.clone() };
    let (small, large) = (ask(&trace, &small), ask(&trace, &large));
    assert_eq!((large.verdict, large.scale, large.tried.len()), (small.verdict, scale, small.tried.len()));
    for (small, large) in small.tried.iter().zip(&large.tried) {
        assert_eq!((&large.policy, large.mean_response_us), (&small.policy, small.mean_response_us));
        let near = |large: f64, small: f64| (large / (small * scale) - 1.0).abs() < 1e-9;
        assert_eq!(
            (large.dram_pages, large.flash_pages),
            (small.dram_pages * 1024, small.flash_pages * 1024)
        );
        assert!(near(large.money, small.money) && near(large.budget, small.budget), "{small:?} {large:?}");
        assert_eq!(
            large.flash_lifetime_years, small.flash_lifetime_years,
            "still one device and the same writes"
        );
    }
    assert!(
        large.sentence.contains("MiB)") && !small.sentence.contains(&large.sentence),
        "{}",
        large.sentence
    );

    // So large that the flash takes several devices, over which the same writes are spread.
    let huge = Question {
        goal: Goal::Budget(money * scale * scale),
        database_bytes: Some(database_bytes * scale),
        ..question(&trace, "today", Goal::Knee)
    };
    let huge = ask(&trace, &huge);
    let largest = |advice: &Advice| advice.tried.iter().max_by_key(|c| c.flash_pages).expect("some").clone();
    let (one, many) = (largest(&small), largest(&huge));
    assert_eq!(many.flash_pages, one.flash_pages << 20);
    let capacity_gb = Catalogue::builtin().flash(&many.flash_device).expect("built in").capacity_gb;
    let devices = (many.flash_pages as f64 * 4096.0 / 1e9 / capacity_gb).ceil();
    let years = one.flash_lifetime_years.expect("rated") * devices;
    assert!(
        devices > 2.0 && (many.flash_lifetime_years.expect("rated") / years - 1.0).abs() < 1e-9,
        "{many:?}"
    );

    let question = Question {
        database_bytes: Some(trace.footprint_bytes() as f64 - 1.0),
        ..question(&trace, "today", Goal::Knee)
    };
    let refused = advise(&trace, &question, &|_, _| {}).expect_err("smaller than the trace");
    assert!(refused.to_string().contains("smaller than the pages of the trace"), "{refused}");
}

#[test]
fn flash_hurts_where_the_money_buys_dram_for_everything() {
    let trace = all_alike();
    for machine in ["today", "face-2012", "3la-2010"] {
        let money = price_of(&trace, machine, trace.unique_pages() as f64 + 0.5);
        let advice = ask(&trace, &question(&trace, machine, Goal::Budget(money)));
        let found = (advice.verdict, advice.reason, advice.sureness);
        assert_eq!(
            found,
            (Recommendation::NoFlash, Reason::Hurts, Sureness::Sure),
            "{machine}: {}",
            advice.sentence
        );
        assert_eq!((advice.best[0].policy.as_str(), advice.best[0].flash_pages), ("none", 0));
        assert!(advice.sentence.starts_with("No flash"), "{}", advice.sentence);
        assert!(advice.tried.iter().all(|c| c.flash_pages == 0 || c.gain.is_some_and(|gain| gain < 1.0)));
    }
}

#[test]
fn a_slow_device_is_not_advised() {
    let trace = skewed();
    let mut question = question(&trace, "today", Goal::Budget(price_of(&trace, "today", 500.0)));
    // A memory card: slower than the disk for small writes.
    let card = &mut question.flash_devices[0];
    (card.random_read_iops, card.read_us) = (300.0, Some(3000.0));
    (card.random_write_iops, card.write_us) = (20.0, Some(50_000.0));
    (card.sequential_write_mb_s, card.sequential_read_mb_s) = (None, None);
    let advice = ask(&trace, &question);
    assert_eq!(
        (advice.verdict, advice.reason),
        (Recommendation::NoFlash, Reason::Hurts),
        "{}",
        advice.sentence
    );
}

#[test]
fn the_cheapest_that_is_fast_enough_is_found() {
    let trace = skewed();
    let fast = ask(&trace, &question(&trace, "today", Goal::Response(2000.0)));
    assert_eq!(fast.verdict, Recommendation::Flash, "{}", fast.sentence);
    let advised = &fast.best[0];
    assert!(advised.mean_response_us <= 2000.0, "{advised:?}");
    let cheaper = fast.tried.iter().find(|c| c.mean_response_us <= 2000.0 && c.money < advised.money);
    assert_eq!(cheaper, None);
    let slow = ask(&trace, &question(&trace, "today", Goal::Response(20_000.0)));
    assert!(slow.best[0].money < advised.money, "{} {}", slow.sentence, fast.sentence);
    let never = ask(&trace, &question(&trace, "today", Goal::Response(1.0)));
    assert_eq!((never.verdict, never.reason), (Recommendation::Unreachable, Reason::NotFastEnough));
    assert!(never.sentence.starts_with("Out of reach"), "{}", never.sentence);
}

#[test]
fn without_a_goal_the_knee_is_found() {
    let trace = skewed();
    let advice = ask(&trace, &question(&trace, "today", Goal::Knee));
    let target = advice.target_us.expect("the knee has one");
    let shortest = advice.tried.iter().map(|c| c.mean_response_us).fold(f64::INFINITY, f64::min);
    let compulsory = advice.compulsory_us;
    assert!(0.0 < compulsory && compulsory < shortest, "{compulsory} {shortest}");
    let slack = (0.1 * (shortest - compulsory)).max(2.0);
    assert!((target - shortest - slack).abs() < 1e-6, "{target} {shortest} {compulsory}");
    let share = format!("Of that response {:.0} %", compulsory / advice.best[0].mean_response_us * 100.0);
    assert!(advice.reasons.join(" ").contains(&share), "{share} in {:?}", advice.reasons);
    assert!(advice.best[0].mean_response_us <= target, "{}", advice.sentence);
    assert_eq!(advice.verdict, Recommendation::Flash, "{}", advice.sentence);
}

#[test]
fn flash_that_would_be_worn_out_is_not_advised() {
    let trace = skewed();
    let mut question = question(&trace, "today", Goal::Budget(price_of(&trace, "today", 500.0)));
    question.years_min = 1e9;
    let advice = ask(&trace, &question);
    assert_eq!(
        (advice.verdict, advice.reason),
        (Recommendation::NoFlash, Reason::WearsOut),
        "{}",
        advice.sentence
    );
    assert_eq!(advice.best[0].flash_pages, 0);
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let trace = skewed();
    let refused = |question: &Question| {
        let error = advise(&trace, question, &|_, _| {}).expect_err("refused");
        error.downcast::<AdviceError>().expect("of its own kind")
    };
    let mut asked = question(&trace, "today", Goal::Budget(1e-9));
    assert!(matches!(refused(&asked), AdviceError::Budget { .. }));
    asked.goal = Goal::Knee;
    asked.flash_devices[0].currency = "EUR".into();
    assert!(matches!(refused(&asked), AdviceError::Currencies { .. }));
    asked.flash_devices[0].price_per_gb = None;
    assert!(matches!(refused(&asked), AdviceError::NoPrice { .. }));
    asked.flash_devices.clear();
    assert!(matches!(refused(&asked), AdviceError::Nothing { .. }));
    let mut asked = question(&trace, "today", Goal::Knee);
    asked.caches.clear();
    assert!(matches!(refused(&asked), AdviceError::Nothing { what: "policy" }));
}
