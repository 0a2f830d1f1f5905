//! `ropeway bench report`: the page of saved records, as an XML parser and a browser see it, and what ends it.

mod browser;
mod tool;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use browser::Browser;
use nix::sys::signal::Signal;
use roxmltree::{Document, Node};
use tempfile::TempDir;
use tool::{Running, ropeway, stderr, stdout};

/// Of a machine, in a few benchmarks.
const MEASURED: &str = include_str!("report/records.jsonl");

/// What models say, with an interval and doubts.
const PREDICTED: &str = r#"
{"bench":"boum","metric":"execution","unit":"s","mode":"persistent","application":"jacobi","size":1024,"ranks":2,"nodes":1,"median":0.52,"ci95":[0.5,0.55],"predicted":0.5}
{"bench":"boum","metric":"execution","unit":"s","mode":"persistent","application":"cg","size":1024,"ranks":2,"nodes":1,"median":0.031,"predicted":0.04,"doubts":["drift","spread"]}
{"bench":"boum","metric":"o_s","unit":"ns","mode":"persistent","ranks":2,"nodes":1,"bytes":1024,"median":905.0}
{"bench":"boum","metric":"d_p","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"bytes":1024,"median":0.45,"doubts":["correlated"]}
{"bench":"segments","metric":"global_phase","unit":"s","application":"fft","size":524288,"ranks":2,"nodes":2,"segments":1,"median":0.011,"predicted":0.012,"s_best":5.5}
{"bench":"segments","metric":"global_phase","unit":"s","application":"fft","size":524288,"ranks":2,"nodes":2,"segments":8,"median":0.008,"predicted":0.009,"s_best":5.5}
"#;

/// Programs of blocking calls, faster and slower than those of another library.
const TRANSPARENT: &str = r#"
{"bench":"transparency","of":"is","metric":"time","unit":"us","mode":"oneshot","ranks":2,"nodes":1,"wait":"polling","bytes":65536,"median":200.0,"peer":"MPICH 5","peer_mode":"blocking","peer_median":100.0,"ratio":2.0,"ratio_min":1.6,"ratio_max":2.5,"verdict":"slower","p":0.03}
{"bench":"transparency","of":"cg","metric":"time","unit":"us","mode":"oneshot","ranks":2,"nodes":1,"wait":"blocking","bytes":65536,"median":400.0,"peer":"MPICH 5","peer_mode":"blocking","peer_median":500.0,"ratio":0.8,"ratio_min":0.8,"ratio_max":0.8,"verdict":"no difference shown","p":0.2}
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

/// What hides, goes on by itself and is saved, of Ropeway, a floor and another library in both forms, and parameters of two ways to wait.
const SHARES: &str = r#"
{"bench":"overlap","metric":"d_o","unit":"ratio","mode":"persistent","ranks":2,"nodes":2,"rate":"1gbit","netns":true,"wait":"adaptive","side":"recv","compute":"busy","bytes":65536,"median":0.91,"floor_name":"sockets and threads","floor":0.8}
{"bench":"overlap","metric":"d_o","unit":"ratio","mode":"persistent","ranks":2,"nodes":2,"rate":"1gbit","netns":true,"wait":"adaptive","side":"both","compute":"busy","bytes":65536,"median":0.4}
{"bench":"compare","of":"overlap","metric":"d_o","unit":"ratio","mode":"persistent","ranks":2,"nodes":2,"rate":"1gbit","netns":true,"wait":"adaptive","side":"recv","compute":"busy","bytes":65536,"median":0.9,"peer":"MPICH 5","peer_mode":"persistent","peer_median":-0.35,"difference":1.25,"difference_min":1.2,"difference_max":1.3,"verdict":"more","p":0.03}
{"bench":"compare","of":"overlap","metric":"d_o","unit":"ratio","mode":"persistent","ranks":2,"nodes":2,"rate":"1gbit","netns":true,"wait":"adaptive","side":"recv","compute":"busy","bytes":65536,"median":0.9,"peer":"MPICH 5","peer_mode":"nonblocking","peer_median":0.15,"difference":0.75,"difference_min":0.7,"difference_max":0.8,"verdict":"more","p":0.03}
{"bench":"compare","of":"overlap","metric":"t_y","unit":"us","mode":"persistent","ranks":2,"nodes":2,"rate":"1gbit","netns":true,"wait":"adaptive","side":"recv","compute":"busy","bytes":65536,"median":560.0,"peer":"MPICH 5","peer_mode":"nonblocking","peer_median":700.0,"ratio":0.8,"ratio_min":0.7,"ratio_max":0.9,"verdict":"faster","p":0.03}
{"bench":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"wait":"adaptive","side":"recv","compute":"sleep","bytes":65536,"median":0.97}
{"bench":"compare","of":"asynchrony","metric":"d_a","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"wait":"adaptive","side":"recv","compute":"sleep","bytes":65536,"median":0.97,"peer":"MPICH 5","peer_mode":"persistent","peer_median":-0.1,"difference":1.07,"difference_min":1.0,"difference_max":1.1,"verdict":"too few runs","p":1.0}
{"bench":"persistence","metric":"d_p","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"wait":"adaptive","bytes":8,"median":0.8}
{"bench":"compare","of":"persistence","metric":"d_p","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"wait":"adaptive","bytes":8,"median":0.81,"peer":"MPICH 5","peer_mode":"persistent","peer_median":0.06,"difference":0.75,"difference_min":0.75,"difference_max":0.75}
{"bench":"compare","of":"persistence","metric":"saved","unit":"ratio","mode":"persistent","ranks":2,"nodes":1,"wait":"adaptive","bytes":8,"median":0.45,"peer":"MPICH 5","peer_mode":"persistent","peer_median":-0.02,"difference":0.47,"difference_min":0.47,"difference_max":0.47}
{"bench":"overhead","metric":"o_s","unit":"ns","mode":"persistent","ranks":2,"nodes":2,"wait":"polling","bytes":8,"median":600.0}
{"bench":"overhead","metric":"o_i","unit":"ns","mode":"persistent","ranks":2,"nodes":2,"wait":"polling","bytes":0,"median":3000.0}
{"bench":"overhead","metric":"o_s","unit":"ns","mode":"persistent","ranks":2,"nodes":2,"wait":"blocking","bytes":8,"median":610.0,"doubts":["drift"]}
{"bench":"overhead","metric":"o_i","unit":"ns","mode":"persistent","ranks":2,"nodes":2,"wait":"blocking","bytes":0,"median":9000.0}
{"bench":"overhead","metric":"R","unit":"ratio","mode":"persistent","ranks":2,"nodes":2,"wait":"blocking","bytes":8,"median":2.5}
{"bench":"report","metric":"part","command":"ropeway bench overhead --nodes 2 --netns --rate 1gbit --wait polling,blocking","seconds":0.0,"why":"--netns needs root"}
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
    let page = page_of(&format!("{MEASURED}{PREDICTED}{TRANSPARENT}{CLASSES}{SHARES}"));
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
    let Some(browser) = Browser::find() else { return };
    for (width, scheme) in [(1400, "light"), (400, "light"), (1400, "dark")] {
        let seen = browser.see(&page.html, width, scheme, page.folder.path());
        assert_eq!(seen, format!("{} figures, {width} wide, {scheme}", drawings.len()));
    }
}

#[test]
fn the_page_prints_on_a_few_sheets() {
    let page = page_of(&format!("{MEASURED}{PREDICTED}{TRANSPARENT}{CLASSES}"));
    let Some(browser) = Browser::find() else { return };
    let printed = browser.print(&page.html, page.folder.path());
    assert!(printed.starts_with(b"%PDF"));
    let sheet = b"/Type /Page\n";
    let sheets = printed.windows(sheet.len()).filter(|found| found == sheet).count();
    assert!((2..=SHEETS_MAX).contains(&sheets), "{sheets} sheets");
}

/// Of a page with all kinds of figures.
const SHEETS_MAX: usize = 12;

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

#[test]
fn programs_beside_others_are_as_fast_as_their_times_say() {
    let page = page_of(TRANSPARENT);
    for (title, speed, short, verdict) in [
        ("is, one node, polling", "0.500", "slower", "slower"),
        ("cg, one node, blocking", "1.250", "undecided", "no difference shown"),
    ] {
        let (_, figure) = page.html.split_once(&format!("<b>{title}</b>")).expect(title);
        let figure = figure.split_once("</figure>").unwrap().0;
        let value = format!("<td>64K bytes, MPICH 5, blocking</td><td>{speed}</td>");
        assert!(figure.contains(&value) && figure.contains(&format!("<td>{verdict}</td>")), "{title}: {figure}");
        assert!(figure.contains(&format!(">{speed}, {short}</text>")), "{title}: {figure}");
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
fn what_others_hide_stands_beside_ours_and_the_floor() {
    let page = page_of(SHARES);
    let section = |id: &str| {
        let (_, rest) = page.html.split_once(&format!("<section id=\"{id}\">")).expect(id);
        rest.split_once("</section>").unwrap().0
    };
    let figure = |id: &str, title: &str| {
        let (_, figure) = section(id).split_once(&format!("<b>{title}</b>")).expect(title);
        figure.split_once("</figure>").unwrap().0
    };
    let row = |name: &str, bytes: &str, value: &str| format!("<td>{name}</td><td>{bytes}</td><td>{value}</td>");
    // Each direction by itself; the other library with the form that hides most.
    let receiving = figure("overlap", "two nodes, a line of 1gbit, receiving");
    for (name, value) in
        [("busy", "0.910"), ("floor: sockets and threads, receiving, busy", "0.800"), ("MPICH 5, busy", "0.150")]
    {
        assert!(receiving.contains(&row(name, "64K", value)), "{name}: {receiving}");
    }
    assert!(!receiving.contains("-0.350"), "{receiving}");
    assert!(!figure("overlap", "two nodes, a line of 1gbit, both").contains("MPICH"));
    assert!(figure("asynchrony", "one node, receiving").contains(&row("MPICH 5, asleep", "64K", "-0.100")));
    assert!(figure("persistence", "one node").contains(&row("MPICH 5", "8", "0.060")));
    let saved = "<td>MPICH 5</td><td>0.060</td><td></td><td></td><td>-0.020</td>";
    assert!(section("persistence").contains(saved), "{}", section("persistence"));
    // Ratios of shares would mean nothing.
    assert!(!section("peers").contains("MPICH 5"), "{}", section("peers"));
}

#[test]
fn parameters_of_both_ways_to_wait_are_side_by_side() {
    let page = page_of(SHARES);
    let (_, table) = page.html.split_once("<h3>Parameters of messages, two nodes, loopback TCP</h3>").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    assert!(table.contains("<th>unit</th><th>polling</th><th>blocking</th>"), "{table}");
    for (parameter, unit, polling, blocking) in [
        ("o_s", "ns", "600.0", "~610.0"),
        ("o_i", "ns", "3000", "9000"),
        ("o", "ns", "3600", "~9610"),
        ("b", "", "", ""),
        ("R", "", "", "2.500"),
    ] {
        let row = format!("<td>8</td><td>{parameter}</td><td>{unit}</td><td>{polling}</td><td>{blocking}</td>");
        assert!(table.contains(&row), "{row}: {table}");
    }
    assert!(
        page.html.contains(
            "Left out: parameters of messages, polling and blocking. ropeway bench overhead --nodes 2 --netns"
        )
    );
    // The calls are shown once, though they were waited for in two ways.
    assert!(page.html.contains("<b>two nodes, loopback TCP, polling, 8 bytes</b>"));
    assert!(!page.html.contains("<b>two nodes, loopback TCP, blocking, 8 bytes</b>"));
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
fn tables_mark_what_is_in_doubt_and_say_why() {
    let coll = |metric: &str, mode: &str, more: &str| {
        format!(
            "{{\"bench\":\"coll\",\"metric\":\"{metric}\",\"op\":\"bcast\",\"mode\":\"{mode}\",\"ranks\":2,\"nodes\":1,\"bytes\":8,{more}}}\n"
        )
    };
    let records = [
        coll("latency", "persistent", "\"median\":1.5"),
        coll("latency", "oneshot", "\"median\":2.5,\"doubts\":[\"drift\"]"),
        coll("d_o", "persistent", "\"median\":0.25,\"compute\":\"sleep\",\"doubts\":[\"spread\"]"),
    ];
    let Page { html, .. } = page_of(&format!("{PREDICTED}{}", records.concat()));
    let below = |title: &str| {
        let (_, table) = html.split_once(&format!("<h3>{title}</h3>")).expect(title);
        let (table, rest) = table.split_once("</div>").unwrap();
        (table.to_owned(), rest.lines().nth(1).unwrap_or_default().to_owned())
    };
    let (parameters, why) = below("Parameters of the model");
    assert!(parameters.contains("<td>905.0</td><td>~0.450</td>"), "{parameters}");
    assert!(why.contains("Figures with ~ are not to be trusted: correlated."), "{why}");
    let (collectives, why) = below("Persistent and one-shot");
    assert!(collectives.contains("<td>1.500</td><td>~2.500</td><td>~0.250</td><td></td>"), "{collectives}");
    assert!(why.contains("Figures with ~ are not to be trusted: drift, spread."), "{why}");
}

#[test]
fn doubts_about_ropeway_are_none_about_others() {
    let ours = r#"{"bench":"latency","metric":"half_rtt","mode":"persistent","ranks":2,"nodes":1,"bytes":8,"median":0.2,"doubts":["drift"]}"#;
    let beside = r#"{"bench":"compare","of":"latency","metric":"half_rtt","mode":"persistent","ranks":2,"nodes":1,"wait":"adaptive","bytes":8,"median":0.2,"doubts":["drift"],"peer":"MPICH 5","peer_mode":"blocking","peer_median":0.5,"ratio":0.4,"ratio_min":0.4,"ratio_max":0.4}"#;
    let Page { html, .. } = page_of(&format!("{ours}\n{beside}\n"));
    assert!(html.contains("<td>persistent</td><td>8</td><td>0.200</td><td></td><td>drift</td>"));
    assert!(html.contains("<td>MPICH 5</td><td>8</td><td>0.500</td><td></td><td></td>"));
}

#[test]
fn each_call_has_its_own_figure_beside_others() {
    let call = |metric: &str, ratio: f64| {
        format!(
            r#"{{"bench":"compare","of":"overhead","metric":"{metric}","unit":"ns","mode":"persistent","ranks":2,"nodes":2,"wait":"adaptive","bytes":8,"median":100.0,"peer":"MPICH 5","peer_mode":"persistent","peer_median":400.0,"ratio":{ratio},"ratio_min":{ratio},"ratio_max":{ratio}}}"#
        )
    };
    let Page { html, .. } = page_of(&format!("{}\n{}\n", call("start_send", 0.25), call("wait_done", 2.0)));
    assert_eq!(drawings(&html).len(), 2);
    // A time, so 0.25 of theirs is four times as fast.
    for (title, speed) in [("overhead, start_send, ", "4.00"), ("overhead, wait_done, ", "0.500")] {
        let figure = html.split("<figure").find(|figure| figure.contains(title));
        assert!(figure.is_some_and(|figure| figure.contains(speed)), "{title}");
    }
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
fn a_page_goes_into_a_pipe_and_keeps_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (records, link, file) =
        (folder.path().join("records"), folder.path().join("link.html"), folder.path().join("page.html"));
    fs::write(&records, MEASURED).unwrap();
    let page_to = |to: &str| {
        let output = report(&["--records", records.to_str().unwrap(), "--output", to]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    assert!(page_to("/dev/stdout").contains("<html"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    page_to(link.to_str().unwrap());
    assert!(link.is_symlink() && file.is_file());
}

#[test]
fn what_was_measured_before_an_interrupt_is_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let mut command = ropeway(&["bench", "report", "--quick", "--quiet", "--output"]);
    let mut tool = Running::start(command.arg(&page));
    // The first part is over when others than its ranks are there.
    let first = tool.until_children(|ranks| ranks.len() == 2);
    tool.until_children(|ranks| ranks.len() == 2 && ranks.iter().all(|rank| !first.contains(rank)));
    tool.signal(Signal::SIGINT);
    assert_eq!(tool.wait().unwrap().code(), Some(130));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Machine and versions") && html.contains("ended by SIGINT"));
    // All of the first part, or as much as there was time for, which may be nothing on a machine with much else to do.
    let (_, count) = html.split_once("comes from ").expect("it is said how many records there are");
    let is_drawn = count.split(' ').next().unwrap().parse::<u32>().unwrap() > 0 && html.contains("<svg class=\"plot\"");
    assert!(is_drawn || html.contains("there was no time left for all of it"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
