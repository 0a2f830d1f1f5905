//! The page: one file that needs nothing else.

use super::headline;
use super::machine::Machine;
use super::records::Records;
use super::section::{Cells, Section};
use super::sections;
use crate::svg::escape;

/// All of it.
pub(super) fn html(records: &Records) -> String {
    let sections = sections::of(records);
    let date = records.machine.as_ref().map(|machine| machine.date.as_str());
    let date = date.map(|date| format!(", {}", date.replace('T', " ").replace('Z', " UTC")));
    let title = format!("Ropeway report{}", date.unwrap_or_default());
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<p class=\"headline\">{}</p>\n</header>\n<main>\n",
        // A number and its unit stay together.
        escape(&headline::of(records)).replace(" %", "&nbsp;%").replace(" µs", "&nbsp;µs"),
    );
    html += &contents(&sections);
    html += &machine(records);
    html.extend(sections.iter().map(Section::html));
    html += &parts(records);
    html += &download(records);
    html + "</main>\n</body>\n</html>\n"
}

fn contents(sections: &[Section]) -> String {
    let entry = |section: &Section| format!("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.title);
    let entries: String = sections.iter().map(entry).collect();
    format!("<nav aria-label=\"Contents\"><ul>\n{entries}</ul></nav>\n")
}

/// Machine and versions.
fn machine(records: &Records) -> String {
    let mut entries: Vec<(&str, String)> = Vec::new();
    match &records.machine {
        Some(machine) => entries.extend(facts(machine)),
        None => {
            let versions = records.rows.first().map(|row| row.version.clone()).filter(|version| !version.is_empty());
            entries.extend(versions.map(|version| ("Ropeway", version)));
            entries.push(("Machine", "the records don't say".to_owned()));
        }
    }
    let mut peers: Vec<&str> =
        records.rows.iter().map(|row| row.peer.as_str()).filter(|peer| !peer.is_empty()).collect();
    peers.sort_unstable();
    peers.dedup();
    entries.push(("Other libraries", if peers.is_empty() { "none measured".to_owned() } else { peers.join(", ") }));
    let entries: String =
        entries.iter().map(|(name, what)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(what))).collect();
    format!("<section id=\"machine\">\n<h2>Machine and versions</h2>\n<dl>\n{entries}</dl>\n</section>\n")
}

fn facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let Machine { date: _, version, optimized, cores, cpu, memory_gib, kernel, system, load } = machine.clone();
    let build = if optimized { "" } else { ", built without optimizations: figures mean little" };
    let cores = format!("{cores} cores");
    let memory = memory_gib.map(|gib| format!("{gib} GiB"));
    let load = load.map(|load| {
        let busy =
            if load < QUIET { "" } else { ": others were computing, so measure again when the machine is quiet" };
        ("Busy cores before", format!("{load}{busy}"))
    });
    let mut facts = vec![
        ("Ropeway", format!("{version}{build}")),
        ("Processor", [cpu, Some(cores)].into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("Memory", memory.unwrap_or_else(|| "unknown".to_owned())),
        (
            "System",
            [system, kernel.map(|kernel| format!("Linux {kernel}"))]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        ),
    ];
    facts.extend(load);
    facts
}

/// What was run, so that everybody can run it again.
fn parts(records: &Records) -> String {
    if records.parts.is_empty() {
        return String::new();
    }
    let row = |part: &super::records::Part| {
        let outcome = part.why.clone().unwrap_or_else(|| "measured".to_owned());
        let seconds = if part.seconds > 0.0 { part.seconds.to_string() } else { String::new() };
        vec![part.command.clone(), seconds, outcome]
    };
    let heading = ["command", "seconds", "outcome"].map(str::to_owned).into();
    let cells = Cells { heading, rows: records.parts.iter().map(row).collect(), ..Cells::default() };
    format!(
        "<section id=\"parts\">\n<h2>What was run</h2>\n<p class=\"meaning\">Each of these can be run by itself; --help says what it measures, and \
         what could not run, or not to its end, says why.</p>\n{}</section>\n",
        cells.html()
    )
}

/// The records, within a link.
fn download(records: &Records) -> String {
    format!(
        "<section id=\"records\">\n<h2>Raw records</h2>\n<p class=\"meaning\">Everything above comes from {} records, one JSON object a line: \
         <a download=\"ropeway-records.jsonl\" href=\"data:application/x-ndjson;charset=utf-8,{}\">download them</a>. \
         Save them and see them again with <code>ropeway bench report --records FILE</code>.</p>\n</section>\n",
        records.rows.len(),
        percent_encoded(&records.text)
    )
}

/// Text within a URL within an attribute.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z'
            | b'a'..=b'z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b'{'
            | b'}'
            | b':'
            | b','
            | b'/'
            | b'['
            | b']' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// So few busy cores disturb nobody.
const QUIET: f64 = 0.5;
const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_a_link() {
        assert_eq!(percent_encoded("{\"µ\":\"50 %\"}\n"), "{%22%C2%B5%22:%2250%20%25%22}%0A");
    }

    #[test]
    fn a_machine_that_was_busy_is_said_to_be() {
        let load = |load: Option<f64>| {
            let machine = Machine { load, ..Machine::look() };
            facts(&machine).into_iter().find(|(name, _)| *name == "Busy cores before").map(|(_, said)| said)
        };
        assert_eq!(load(Some(0.12)).as_deref(), Some("0.12"));
        assert!(load(Some(4.9)).is_some_and(|said| said.starts_with("4.9: others were computing")));
        assert_eq!(load(None), None);
    }

    #[test]
    fn without_records_the_page_says_what_is_missing() {
        let page = html(&Records::default());
        assert!(!page.contains("class=\"plot\""));
        for missing in
            ["records of ropeway bench latency", "records of ropeway bench compare", "records of ropeway bench boum"]
        {
            assert!(page.contains(missing), "{missing}");
        }
    }
}
