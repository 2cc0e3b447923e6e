//! A page of `vltava bench`, in a browser: its charts are drawn, nothing is outside of them, and nothing is fetched.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use conformance::home;
use serde_json::Value;

/// Two systems, each for a moment.
const WORKLOAD: &str =
    "name: moment\nrecord_bytes: 200\nrate: 2000\nconsumers: 1\nwarmup_seconds: 1\nseconds: 3\n";

/// Says of each chart how large it is, how many shapes of data it has, and which texts are not within it.
const MEASURE: &str = r#"<script>
addEventListener("load", () => {
  const charts = [...document.querySelectorAll("svg[role=img]")].map((svg) => {
    const shapes = [...svg.querySelectorAll("path.line, .bar rect, .dot > :not(title)")].map((shape) => shape.getBBox());
    const box = svg.getBoundingClientRect();
    const within = (text) => {
      const own = text.getBoundingClientRect();
      return own.left >= box.left - 1 && own.right <= box.right + 1 && own.top >= box.top - 1 && own.bottom <= box.bottom + 1;
    };
    return {
      title: svg.getAttribute("aria-label"), width: box.width, height: box.height,
      shapes: shapes.filter((shape) => shape.width > 2).length,
      outside: [...svg.querySelectorAll("text")].filter((text) => !within(text)).map((text) => text.textContent),
    };
  });
  document.body.textContent = JSON.stringify(charts);
});
</script></body>"#;
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\"";

/// Opens a page, and gives its document as it then is.
fn open(page: &Path, folder: &Path) -> Result<Output> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let quiet =
        ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--window-size=1300,1000",
        ])
        .args(quiet)
        .args([&profile, "--dump-dom"])
        .arg(page)
        .output()
        .context("chromium does not start; `cargo xtask test` installs it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

/// What the page said on the console of the browser; also what its policy kept from being fetched is said there.
fn console(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
}

fn charts(page: &str, folder: &Path) -> Result<Vec<Value>> {
    // The page itself lets no script run.
    let measured = page.replace(POLICY, "<meta name=\"policy\"").replace("</body>", MEASURE);
    let path = folder.join("measured.html");
    fs::write(&path, measured)?;
    let document = String::from_utf8(open(&path, folder)?.stdout)?;
    let body = document.split("<body>").nth(1).and_then(|rest| rest.split("</body>").next());
    Ok(serde_json::from_str(&body.with_context(|| document.clone())?.replace("&amp;", "&"))?)
}

/// Each can be seen, shows something, and has all its texts within it.
fn check(charts: &[Value]) -> Result<()> {
    for chart in charts {
        ensure!(chart["shapes"].as_u64() > Some(0), "nothing is drawn: {chart}");
        let is_large = |of: &str| chart[of].as_f64().is_some_and(|size| size > 60.0);
        ensure!(is_large("width") && is_large("height"), "it cannot be seen: {chart}");
        ensure!(chart["outside"].as_array().is_some_and(Vec::is_empty), "texts are cut off: {chart}");
    }
    Ok(())
}

/// Which charts a few of them have to have.
const DRAWN: [(&str, &str); 9] = [
    ("linkedin-1p1c.html", "Until acknowledged: the share of records that were not slower"),
    ("linkedin-1p1c.html", "Until read: the share of records that were not slower"),
    ("linkedin-stored-data.html", "Writing as the stored data grows"),
    ("liveramp-send-latency.html", "Calls of send: the share that were not slower"),
    ("linkedin-record-size.html", "written, records/s"),
    ("linkedin-record-size.html", "written, MiB/s"),
    ("liveramp-partitions.html", "written, records/s"),
    ("liveramp-partitions.html", "written, MiB/s"),
    ("confluent-disk-ceiling.html", "What this machine can do"),
];

/// All that `vltava bench list` lists, but for families of them.
fn experiments() -> Result<Vec<String>> {
    let listed = Command::new(home::vltava()?).args(["bench", "list", "--json"]).output()?;
    ensure!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
    let names = listed.iter().filter(|it| it["experiments"].is_null()).filter_map(|it| it["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Those under `docs/benchmarks/bench`, one of each experiment, and those of some without paced sockets.
#[test]
fn the_reports_of_this_tree_are_drawn_and_fetch_nothing() -> Result<()> {
    let [reports, unpaced] = ["bench", "unpaced"]
        .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks").join(name));
    let folder = tempfile::tempdir()?;
    let mut seen = BTreeSet::new();
    let entries = |of: &Path| fs::read_dir(of).with_context(|| of.display().to_string());
    for entry in entries(&unpaced)?.chain(entries(&reports)?) {
        let path = entry?.path();
        if path.extension().is_none_or(|it| it != "html") {
            continue;
        }
        let page = fs::read_to_string(&path)?;
        ensure!(page.contains(POLICY), "{}: nothing keeps it from fetching", path.display());
        let drawn = charts(&page, folder.path())?;
        ensure!(!drawn.is_empty(), "{}: there is no chart", path.display());
        check(&drawn).with_context(|| path.display().to_string())?;
        let wanted = DRAWN.iter().filter(|(file, _)| path.file_name().is_some_and(|name| name == *file));
        for (file, title) in wanted {
            let is_there =
                drawn.iter().any(|chart| chart["title"].as_str().is_some_and(|it| it.starts_with(title)));
            ensure!(is_there, "{file} has no chart {title:?}: {drawn:?}");
        }
        let said = console(&open(&path, folder.path())?);
        ensure!(said.is_empty(), "{}: {said:?}", path.display());
        let is_listed = path.parent() == Some(&*reports);
        seen.extend(path.file_stem().filter(|_| is_listed).map(|name| name.to_string_lossy().into_owned()));
    }
    let missing: Vec<String> = experiments()?.into_iter().filter(|name| !seen.contains(name)).collect();
    ensure!(missing.is_empty(), "{} has no report of {missing:?}", reports.display());
    Ok(())
}

/// The page of a family, and of what a change made of a result, have charts as well, and fetch nothing.
fn pages_of_several(results: &Path, folder: &Path) -> Result<()> {
    let commands = [
        ("family.html", vec!["report", "moment.json", "--together", "family"]),
        ("moment-compared.html", vec!["compare", "moment.json", "moment.json"]),
    ];
    for (page, words) in commands {
        let made = Command::new(home::vltava()?)
            .current_dir(results)
            .arg("bench")
            .args(words)
            .args(["--out", "."])
            .output()?;
        let said = String::from_utf8_lossy(&made.stderr);
        // 3: two runs are too few to be sure that nothing became worse.
        ensure!(made.status.success() || made.status.code() == Some(3), "{page}: {said}");
        let path = results.join(page);
        let drawn = charts(&fs::read_to_string(&path).with_context(|| format!("{page}: {said}"))?, folder)?;
        ensure!(!drawn.is_empty(), "{page}: there is no chart");
        check(&drawn).context(page)?;
        let said = console(&open(&path, folder)?);
        ensure!(said.is_empty(), "{page}: {said:?}");
    }
    Ok(())
}

#[test]
fn a_page_is_drawn_and_fetches_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (workload, out) = (folder.path().join("moment.yaml"), folder.path().join("out"));
    fs::write(&workload, WORKLOAD)?;
    // Warm it is not, but it is tried before.
    let driver = folder.path().join("kafka.yaml");
    fs::write(&driver, "name: kafka\nsystem: kafka\nwarmup: {tries_max: 1, seconds: 0.5}\n")?;
    let run = Command::new(home::vltava()?)
        .args(["bench", "run", "--no-ceilings", "--runs", "2"])
        .args([Path::new("--against"), &driver])
        .args([&workload, Path::new("--out"), &out])
        .args([Path::new("--data-dir"), &folder.path().join("data")])
        .args([Path::new("--kafka"), &home::installed("kafka")?])
        .output()?;
    let said = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{said}");
    let turns = said.lines().filter_map(|line| line.trim().strip_prefix("run "));
    let turns: Vec<&str> = turns.filter_map(|line| line.split(" · ").nth(1)).collect();
    ensure!(turns == ["vltava", "kafka", "kafka", "vltava"], "they take turns: {said}");
    let report: Value = serde_json::from_slice(&fs::read(out.join("moment.json"))?)?;
    for system in report["points"][0]["systems"].as_array().context("there are systems")? {
        let runs = system["runs"].as_array().context("there are runs")?;
        let records = |run: &Value| run["written"]["records"].as_u64().filter(|_| run["wrong"].is_null());
        let are_whole = runs.len() == 2 && runs.iter().all(|run| records(run) == Some(6_000));
        ensure!(are_whole, "{system}");
        let tries = if system["name"] == "kafka" { 1 } else { 0 };
        ensure!(runs.iter().all(|run| run["warmup_tries"] == tries), "{system}");
    }
    let path = out.join("moment.html");
    let page = fs::read_to_string(&path)?;

    let charts = charts(&page, folder.path())?;
    for title in ["Written", "Read", "Until read, p99 of each second", "Memory of the brokers"] {
        let chart = charts.iter().find(|chart| chart["title"] == title);
        let chart = chart.with_context(|| format!("{title} is not among {charts:?}"))?;
        ensure!(chart["shapes"] == 2, "both systems are in it: {chart}");
    }
    check(&charts)?;

    let said = console(&open(&path, folder.path())?);
    ensure!(said.is_empty(), "{said:?}");
    pages_of_several(&out, folder.path())?;
    // What would be said if it fetched anything.
    let fetching = folder.path().join("fetching.html");
    fs::write(&fetching, page.replace("<main>", "<main><img src=\"http://127.0.0.1:9/a.png\">"))?;
    let said = console(&open(&fetching, folder.path())?);
    ensure!(said.iter().any(|line| line.contains("a.png")), "the policy was not asked: {said:?}");
    Ok(())
}
