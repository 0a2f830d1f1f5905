//! `ropeway bench report`: the page of saved records, as an XML parser and a browser see it, and what ends it.

mod tool;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use roxmltree::{Document, Node};
use tempfile::TempDir;
use tool::{ropeway, stderr};

/// Of a machine, in a few benchmarks.
const MEASURED: &str = include_str!("report/records.jsonl");

/// What models say, with an interval and doubts.
const PREDICTED: &str = r#"
{"bench":"boum","metric":"execution","unit":"s","mode":"persistent","application":"jacobi","size":1024,"ranks":2,"nodes":1,"median":0.52,"ci95":[0.5,0.55],"predicted":0.5}
{"bench":"boum","metric":"execution","unit":"s","mode":"persistent","application":"cg","size":1024,"ranks":2,"nodes":1,"median":0.031,"predicted":0.04,"doubts":["drift","spread"]}
{"bench":"boum","metric":"o_s","unit":"ns","mode":"persistent","ranks":2,"nodes":1,"bytes":1024,"median":905.0}
{"bench":"boum","metric":"d_p","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"bytes":1024,"median":0.45}
{"bench":"segments","metric":"global_phase","unit":"s","application":"fft","size":524288,"ranks":2,"nodes":2,"segments":1,"median":0.011,"predicted":0.012,"s_best":5.5}
{"bench":"segments","metric":"global_phase","unit":"s","application":"fft","size":524288,"ranks":2,"nodes":2,"segments":8,"median":0.008,"predicted":0.009,"s_best":5.5}
"#;

/// Programs of blocking calls, faster and slower than those of another library.
const TRANSPARENT: &str = r#"
{"bench":"transparency","of":"is","metric":"time","unit":"us","mode":"oneshot","ranks":2,"nodes":1,"wait":"polling","bytes":65536,"median":200.0,"peer":"MPICH 5","peer_mode":"blocking","peer_median":100.0,"ratio":2.0,"ratio_min":1.6,"ratio_max":2.5}
{"bench":"transparency","of":"cg","metric":"time","unit":"us","mode":"oneshot","ranks":2,"nodes":1,"wait":"blocking","bytes":65536,"median":400.0,"peer":"MPICH 5","peer_mode":"blocking","peer_median":500.0,"ratio":0.8,"ratio_min":0.8,"ratio_max":0.8}
"#;

/// The four ways to wait and to drive messages, with the harm that polling does to small ones, and an adaptive one beside them.
const CLASSES: &str = r#"
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","progress":"independent","wait":"polling","ranks":2,"nodes":2,"bytes":8,"side":"recv","compute":"busy","median":0.61,"ci95":[0.5,0.7]}
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","progress":"client","wait":"polling","ranks":2,"nodes":2,"bytes":8,"side":"recv","compute":"busy","median":-4.5,"ci95":[-5.5,-4.0],"doubts":["spread"]}
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","progress":"independent","wait":"blocking","ranks":2,"nodes":2,"bytes":8,"side":"recv","compute":"busy","median":0.95,"ci95":[0.9,0.99]}
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","progress":"client","wait":"blocking","ranks":2,"nodes":2,"bytes":8,"side":"recv","compute":"busy","median":-0.2,"ci95":[-0.25,-0.1]}
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","progress":"independent","wait":"adaptive","ranks":2,"nodes":2,"bytes":8,"side":"recv","compute":"busy","median":0.9}
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","progress":"independent","wait":"adaptive","ranks":2,"nodes":2,"bytes":64,"side":"recv","compute":"busy","median":0.9}
"#;

/// A page, in a folder that goes with it.
struct Page {
    folder: TempDir,
    html: String,
}

fn report(args: &[&str]) -> Output {
    ropeway(&["bench", "report", "--quiet"]).args(args).output().unwrap()
}

fn page_of(records: &str) -> Page {
    let folder = tempfile::tempdir().unwrap();
    let (saved, page) = (folder.path().join("records.jsonl"), folder.path().join("page.html"));
    fs::write(&saved, records).unwrap();
    let output = report(&["--records", saved.to_str().unwrap(), "--output", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    Page { html: fs::read_to_string(page).unwrap(), folder }
}

/// The drawings of a page.
fn drawings(html: &str) -> Vec<&str> {
    let end = |text: &str| text.find("</svg>").unwrap() + "</svg>".len();
    let begins = html.match_indices("<svg class=\"plot\"").map(|(begin, _)| begin);
    begins.map(|begin| &html[begin..begin + end(&html[begin..])]).collect()
}

#[test]
fn every_figure_is_drawn_within_its_bounds() {
    let page = page_of(&format!("{MEASURED}{PREDICTED}{TRANSPARENT}{CLASSES}"));
    let drawings = drawings(&page.html);
    for section in [
        "latency",
        "bandwidth",
        "peers",
        "transparency",
        "overhead",
        "persistence",
        "overlap",
        "asynchrony",
        "classes",
        "collectives",
        "boum",
        "segments",
    ] {
        assert!(page.html.contains(&format!("aria-labelledby=\"{section}-1-title {section}-1-desc\"")), "{section}");
    }
    for drawing in &drawings {
        check(&Document::parse(drawing).unwrap());
    }
    for (width, scheme) in [(1400, "light"), (400, "light"), (1400, "dark")] {
        let Some(verdict) = see(&page, width, scheme) else {
            eprintln!("no browser to look at it: install chromium");
            return;
        };
        assert_eq!(verdict, format!("{} figures, {scheme}", drawings.len()), "{width} wide");
    }
}

/// Numbers are numbers, marks are there, and words end before the drawing does.
fn check(drawing: &Document<'_>) {
    let root = drawing.root_element();
    let bounds: Vec<f64> =
        root.attribute("viewBox").unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    let (width, height) = (bounds[2], bounds[3]);
    let title = root.children().find(|node| node.has_tag_name("title")).unwrap().text().unwrap();
    let is_mark =
        |node: &Node<'_, '_>| node.attribute("class").is_some_and(|class| class.split(' ').any(|word| word == "mark"));
    assert!(drawing.descendants().any(|node| is_mark(&node)), "nothing is drawn: {title}");
    let number = |node: &Node<'_, '_>, name| node.attribute(name).map(|value: &str| value.parse::<f64>().unwrap());
    for node in drawing.descendants() {
        assert!(
            node.attributes().all(|attribute| !attribute.value().contains("NaN") && !attribute.value().contains("inf"))
        );
        for name in ["x", "x1", "x2"] {
            assert!(number(&node, name).is_none_or(|x| (0.0..=width).contains(&x)), "{title}: {node:?}");
        }
        for name in ["y", "y1", "y2"] {
            assert!(number(&node, name).is_none_or(|y| (0.0..=height).contains(&y)), "{title}: {node:?}");
        }
        if node.has_tag_name("text") {
            let (x, words) = (number(&node, "x").unwrap(), node.text().unwrap());
            let taken = words.chars().count() as f64 * CHARACTER;
            let classes = node.attribute("class").unwrap_or_default();
            let begin = if classes.contains("end") {
                x - taken
            } else if classes.contains("middle") {
                x - taken / 2.0
            } else {
                x
            };
            assert!(begin >= 0.0 && begin + taken <= width, "{title}: {words} does not fit");
        }
    }
}

/// About the width of one, in units of the drawings.
const CHARACTER: f64 = 7.0;

/// What a browser finds whose user prefers a light or a dark page: how many figures have drawn and in which colours, or what is
/// wrong. `None` if there is no browser.
fn see(page: &Page, width: u32, scheme: &str) -> Option<String> {
    let browser = browser()?;
    let path = page.folder.path().join("looked-at.html");
    fs::write(&path, format!("{}<pre id=\"verdict\"></pre><script>{LOOK}</script>", page.html)).unwrap();
    let profile = page.folder.path().join("profile");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--dump-dom",
    ]);
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(scheme == "light")));
    command.arg(format!("--window-size={width},1000")).arg(format!("--user-data-dir={}", profile.display()));
    let output = command.arg(format!("file://{}", path.display())).output().unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    let (_, verdict) = seen
        .split_once("<pre id=\"verdict\">")
        .unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    Some(verdict.split_once("</pre>").unwrap().0.to_owned())
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|place| place.is_file())
}

/// Run by the browser: looks at what it has drawn, and writes down what is wrong, or how many figures there are.
const LOOK: &str = r#"
const wrong = [];
const page = document.documentElement;
if (page.scrollWidth > page.clientWidth) wrong.push(`the page is ${page.scrollWidth} wide and the window ${page.clientWidth}`);
const light = (colour) => {
  const [r, g, b] = colour.match(/[\d.]+/g).map((part) => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const readable = (colour, ground) => {
  const [low, high] = [light(colour), light(ground)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05) >= 3;
};
const paper = getComputedStyle(document.body).backgroundColor;
for (const words of document.querySelectorAll("h1, h2, p, dd, td, th, a"))
  if (!words.closest("figure") && !readable(getComputedStyle(words).color, paper)) wrong.push(`${words.textContent} can't be read`);
const plots = [...document.querySelectorAll("svg.plot")];
for (const plot of plots) {
  const name = plot.querySelector("title").textContent, bounds = plot.getBoundingClientRect();
  const say = (what) => wrong.push(`${plot.getAttribute("aria-labelledby")}: ${what}`);
  const marks = [...plot.querySelectorAll(".mark, .curve")];
  if (marks.length === 0) say("nothing is drawn");
  const card = getComputedStyle(plot.closest("figure")).backgroundColor;
  for (const words of plot.querySelectorAll("text")) if (!readable(getComputedStyle(words).fill, card)) say(`${words.textContent} can't be read`);
  for (const mark of marks) {
    if (!readable(getComputedStyle(mark).stroke.replace("none", getComputedStyle(mark).fill), card)) say("a mark can't be seen");
    const box = mark.getBBox();
    if (!(box.width > 0 || box.height > 0)) say("a mark or a curve is empty");
  }
  for (const words of plot.querySelectorAll("text")) {
    const box = words.getBoundingClientRect();
    const is_inside = box.left >= bounds.left - 1 && box.right <= bounds.right + 1 && box.top >= bounds.top - 1 && box.bottom <= bounds.bottom + 1;
    if (!(box.width > 0 && is_inside)) say(`${words.textContent} does not fit`);
  }
  for (const element of plot.querySelectorAll("*"))
    for (const { name, value } of element.attributes)
      if (/NaN|Infinity|undefined/.test(value)) say(`${name} is ${value}`);
}
document.getElementById("verdict").textContent = wrong.length ? wrong.join("\n")
  : `${plots.length} figures, ${matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"}`;
"#;

#[test]
fn programs_beside_others_are_as_fast_as_their_times_say() {
    let page = page_of(TRANSPARENT);
    for (title, speed) in [("is, one node, polling", "0.500"), ("cg, one node, blocking", "1.250")] {
        let (_, figure) = page.html.split_once(&format!("<b>{title}</b>")).expect(title);
        let value = format!("<td>64K bytes, MPICH 5, blocking</td><td>{speed}</td>");
        assert!(figure.split_once("</figure>").unwrap().0.contains(&value), "{title}: {figure}");
    }
}

#[test]
fn the_four_classes_are_one_figure() {
    let page = page_of(CLASSES);
    assert_eq!(drawings(&page.html).len(), 2, "the four classes, and the adaptive ones over their sizes");
    let (_, section) = page.html.split_once("<section id=\"classes\">").unwrap();
    let section = section.split_once("</section>").unwrap().0;
    for (class, value) in [
        ("polling, driven by daemons", "0.610"),
        ("polling, driven by the program", "-4.500"),
        ("blocking, driven by daemons", "0.950"),
        ("blocking, driven by the program", "-0.200"),
    ] {
        assert!(section.contains(&format!("<td>{class}</td><td>{value}</td>")), "{class}: {section}");
    }
}

#[test]
fn a_page_needs_nothing_else_and_carries_its_records() {
    let Page { html, folder } = page_of(&format!("{MEASURED}{PREDICTED}"));
    assert!(html.len() < 3 << 20);
    for other in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(other), "{other}");
    }
    assert!(html.contains("Hollow marks are not to be trusted: drift, spread."));
    assert_eq!(html.matches("%22predicted%22").count(), PREDICTED.matches("predicted").count());
    let mode = fs::metadata(folder.path().join("page.html")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn doubts_and_symbols_are_explained() {
    let Page { html, .. } = page_of(&format!("{MEASURED}{PREDICTED}"));
    let section = |id: &str| {
        let (_, rest) = html.split_once(&format!("<section id=\"{id}\">")).expect(id);
        rest.split_once("</section>").unwrap().0.to_owned()
    };
    let (_, table) = html.split_once("<h3>Parameters of the model</h3>").unwrap();
    let (heading, _) = table.split_once("</thead>").unwrap();
    let symbols: Vec<_> = heading.split("<th>").skip(3).map(|cell| cell.split([',', '<']).next().unwrap()).collect();
    assert!(symbols.contains(&"o_s") && symbols.contains(&"d_p"), "{symbols:?}");
    let words = section("words");
    for symbol in symbols.into_iter().chain(["d_o", "d_a", "s_best", "S_c"]) {
        assert!(
            words.contains(&format!("<td>{symbol}")) || words.contains(&format!(", {symbol}")),
            "{symbol}: {words}"
        );
    }
    let reading = section("reading");
    for doubt in ["spread", "oversubscribed", "drift", "correlated"] {
        assert!(reading.contains(&format!("<td>{doubt}</td>")), "{doubt}: {reading}");
    }
    assert!(html.contains("<a href=\"#reading\">"));
}

#[test]
fn figures_without_records_are_left_out_with_a_reason() {
    let late = r#"{"bench":"report","metric":"part","command":"ropeway bench compare","seconds":0.0,"why":"no time was left: it is late"}"#;
    let alone = r#"{"bench":"report","metric":"part","command":"ropeway bench transparency","seconds":0.0,"why":"no MPI library found"}"#;
    let page = page_of(&format!("{PREDICTED}{late}\n{alone}"));
    assert_eq!(drawings(&page.html).len(), 2);
    for reason in [
        "records of ropeway bench latency",
        "no time was left: it is late",
        "beside other libraries. ropeway bench transparency: no MPI library found.",
    ] {
        assert!(page.html.contains(reason), "{reason}");
    }
}

#[test]
fn what_can_not_be_read_or_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], why: &str| {
        let output = report(args);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    let (page, table) = (folder.path().join("page.html"), folder.path().join("table.txt"));
    fs::write(&table, "half_rtt, us; 2 ranks\n").unwrap();
    let output = ["--output", page.to_str().unwrap()];
    refused(&[&["--records", "/nonexistent.jsonl"], &output[..]].concat(), "can't read /nonexistent.jsonl");
    let not_records = "name a file of what such a command has printed";
    refused(&[&["--records", table.to_str().unwrap()], &output[..]].concat(), not_records);
    assert!(!page.exists());
    refused(
        &["--output", "/nonexistent/page.html"],
        "can't write /nonexistent/page.html: there is no folder /nonexistent: make it",
    );
    refused(&["--output", folder.path().to_str().unwrap()], "it is a directory");
}

#[test]
fn what_was_measured_before_an_interrupt_is_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let mut command = ropeway(&["bench", "report", "--quick", "--quiet", "--output"]);
    let mut tool = command.arg(&page).spawn().unwrap();
    // The ranks of the first part.
    let children = format!("/proc/{0}/task/{0}/children", tool.id());
    while fs::read_to_string(&children).unwrap().split_whitespace().count() < 2 {
        std::thread::yield_now();
    }
    kill(Pid::from_raw(tool.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(tool.wait().unwrap().code(), Some(130));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Machine and versions") && html.contains("ended by SIGINT"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
