//! The sweep over collectives leaves nothing out, and holds where that is found out soon. Release builds run all of it, see `.ci/run`.

use std::collections::{BTreeMap, BTreeSet};

use ropeway_schedule::{Algorithm, Collective};
use ropeway_sim::sweep::{Case, cases};
use ropeway_sim::workload::Workload;
use ropeway_sim::workload::collective::CollectivePlan;

fn plans(case: &Case) -> Vec<CollectivePlan> {
    case.workload().collectives
}

/// An operation by its name, and how it combines.
fn name(collective: &Collective) -> (&'static str, Option<String>) {
    (collective.name(), collective.order().map(|order| format!("{order:?}")))
}

#[test]
fn few_nodes_and_some_cases_of_many_hold() {
    for case in cases().iter().filter(|case| case.nodes <= 3 || case.nodes <= 33 && case.number.is_multiple_of(199)) {
        ropeway_sim::run_case(case, false).unwrap_or_else(|failure| panic!("{case:?}: {failure}"));
    }
}

#[test]
fn every_algorithm_does_every_operation_that_it_can() {
    let mut names = BTreeSet::new();
    for nodes in [1, 4, 9, 12] {
        let all: Vec<_> = cases().iter().filter(|case| case.nodes == nodes).flat_map(plans).collect();
        let pair = |plan: &CollectivePlan, algorithm: &Algorithm| (name(&plan.shape.collective), algorithm.to_string());
        let done: BTreeSet<_> = all.iter().map(|plan| pair(plan, &plan.algorithm)).collect();
        for plan in &all {
            let mut suits = Algorithm::all().into_iter().filter(|algorithm| algorithm.check(&plan.shape).is_ok());
            let missing = suits.find(|algorithm| !done.contains(&pair(plan, algorithm)));
            assert_eq!(missing, None, "{:?}", plan.shape);
        }
        let operations = done.iter().map(|(operation, _)| operation).collect::<BTreeSet<_>>().len();
        assert_eq!(operations, 8 + 5 * 3, "thirteen, of which five combine in three orders");
        names.extend(all.iter().map(|plan| plan.algorithm.name()));
    }
    assert_eq!(names, Algorithm::names().map(|(name, _)| name).collect());
}

#[test]
fn turns_bring_every_combination_to_every_operation() {
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for case in cases().iter().filter(|case| (3..=33).contains(&case.nodes)) {
        let Workload { spec, collectives, .. } = case.workload();
        let ranks = spec.nodes.iter().map(|node| node.ranks).max();
        // The one that can do everything.
        let plan = collectives.into_iter().find(|plan| plan.algorithm.name() == "linear").expect("it is there");
        let CollectivePlan { shape, element_bytes, rounds, .. } = plan;
        let way = (shape.is_in_place, element_bytes, rounds, ranks);
        found.entry(name(&shape.collective)).or_default().insert(way);
    }
    for ((operation, order), ways) in found {
        let places = if operation.starts_with("neighbor") { 1 } else { 2 };
        let element_sizes = if order.is_none_or(|order| order == "Any") { 4 } else { 2 };
        assert_eq!(ways.len(), places * element_sizes * 2 * 3, "{operation}: {ways:?}");
    }
}

#[test]
fn every_root_of_few_nodes_has_its_turn() {
    for nodes in 1..=8 {
        let of_nodes = cases().into_iter().filter(|case| case.nodes == nodes);
        let roots: BTreeSet<_> =
            of_nodes.flat_map(|case| plans(&case)).filter_map(|plan| plan.shape.collective.root()).collect();
        assert_eq!(roots, (0..nodes).collect());
    }
}
