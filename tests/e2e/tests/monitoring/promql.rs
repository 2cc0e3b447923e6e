//! Expressions of Prometheus, and whether what they name is shown.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use promql_parser::label::MatchOp;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};

/// What series have of each name: their labels with values, each.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, BTreeSet<BTreeMap<String, String>>>);

/// What there is to be asked for.
pub(super) struct Shown {
    pub(super) brokers: Names,
    pub(super) bench: Names,
    /// Labels that Prometheus adds.
    pub(super) added: BTreeSet<String>,
}

/// What Prometheus itself shows of each target.
const OF_TARGETS: &[&str] = &["up"];
/// What Grafana puts in where it asks.
const PLACES: [(&str, &str); 5] = [
    ("$__rate_interval", "1m"),
    ("$cluster", "vltava"),
    ("$instance", ".*"),
    ("$group", ".*"),
    ("$topic", ".*"),
];

impl Names {
    /// Of series as they are shown: `name{label="value"}`.
    pub(super) fn of<'a>(series: impl IntoIterator<Item = &'a String>) -> Result<Self> {
        let mut names = Self::default();
        for series in series {
            let Expr::VectorSelector(VectorSelector { name, matchers, .. }) = parsed(series)? else {
                bail!("no series: {series}")
            };
            let labels = matchers.matchers.into_iter().map(|label| (label.name, label.value)).collect();
            names.0.entry(name.context("it has a name")?).or_default().insert(labels);
        }
        Ok(names)
    }

    pub(super) fn add(&mut self, others: Self) {
        for (name, series) in others.0 {
            self.0.entry(name).or_default().extend(series);
        }
    }
}

impl Shown {
    /// The labels of what a query answers with, if all that it names is there.
    pub(super) fn query(&self, expression: &str) -> Result<BTreeSet<String>> {
        let expression =
            PLACES.iter().fold(expression.to_owned(), |text, (place, put)| text.replace(place, put));
        self.labels(&parsed(&expression)?).with_context(|| expression.clone())
    }

    /// The same for `label_values(series, label)`.
    pub(super) fn variable(&self, definition: &str) -> Result<BTreeSet<String>> {
        let inner = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (series, label) = inner.and_then(|inner| inner.rsplit_once(", ")).context("another form")?;
        let labels = self.query(series)?;
        must_have(&labels, vec![label.to_owned()])
    }

    fn labels(&self, expression: &Expr) -> Result<BTreeSet<String>> {
        let all = |parts: &[&Expr]| -> Result<BTreeSet<String>> {
            let labels: Result<Vec<_>> = parts.iter().map(|part| self.labels(part)).collect();
            Ok(labels?.into_iter().flatten().collect())
        };
        match expression {
            Expr::VectorSelector(selector) => self.selected(selector),
            Expr::MatrixSelector(range) => self.selected(&range.vs),
            Expr::Aggregate(aggregate) => {
                let inner = self.labels(&aggregate.expr)?;
                match &aggregate.modifier {
                    None => Ok(BTreeSet::new()),
                    Some(LabelModifier::Include(by)) => must_have(&inner, by.labels.clone()),
                    Some(LabelModifier::Exclude(without)) => {
                        must_have(&inner, without.labels.clone())?;
                        Ok(inner.into_iter().filter(|label| !without.labels.contains(label)).collect())
                    }
                }
            }
            Expr::Binary(binary) => all(&[&binary.lhs, &binary.rhs]),
            Expr::Paren(paren) => self.labels(&paren.expr),
            Expr::Unary(unary) => self.labels(&unary.expr),
            Expr::Subquery(subquery) => self.labels(&subquery.expr),
            Expr::Call(call) => all(&call.args.args.iter().map(|part| &**part).collect::<Vec<_>>()),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => Ok(BTreeSet::new()),
        }
    }

    /// What a selector selects has all labels that it names, and one series at least the values that it gives.
    fn selected(&self, selector: &VectorSelector) -> Result<BTreeSet<String>> {
        let name = selector.name.as_deref().context("a selector without a name")?;
        if OF_TARGETS.contains(&name) {
            return Ok(self.added.clone());
        }
        let series = self.brokers.0.get(name).or_else(|| self.bench.0.get(name));
        let series = series.with_context(|| format!("nobody shows {name}"))?;
        let mut labels: BTreeSet<String> = series.iter().flat_map(|series| series.keys().cloned()).collect();
        labels.extend(self.added.iter().cloned());
        let named: Vec<_> = selector.matchers.matchers.iter().collect();
        must_have(&labels, named.iter().map(|matcher| matcher.name.clone()).collect())?;
        let is_one = |series: &BTreeMap<String, String>| {
            named
                .iter()
                .filter(|matcher| matcher.op == MatchOp::Equal && !self.added.contains(&matcher.name))
                .all(|matcher| series.get(&matcher.name).is_some_and(|value| *value == matcher.value))
        };
        ensure!(series.iter().any(is_one), "no series of {name} has these values: {named:?}");
        Ok(labels)
    }
}

/// The labels that are wanted, if they are among those that there are.
pub(super) fn must_have(labels: &BTreeSet<String>, wanted: Vec<String>) -> Result<BTreeSet<String>> {
    for label in &wanted {
        ensure!(labels.contains(label), "there is no label {label}, but {labels:?}");
    }
    Ok(wanted.into_iter().collect())
}

/// What stands in a text between these.
pub(super) fn places(text: &str, from: &str, to: &str) -> Vec<String> {
    let rest = text.split(from).skip(1).filter_map(|rest| rest.split(to).next());
    rest.map(|place| place.trim().to_owned()).collect()
}

fn parsed(expression: &str) -> Result<Expr> {
    parser::parse(expression).map_err(|error| anyhow::anyhow!("{expression}: {error}"))
}
