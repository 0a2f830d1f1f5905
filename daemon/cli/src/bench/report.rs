//! `ropeway bench report`: what all benchmarks have found, on one page.

mod chart;
mod curves;
mod headline;
mod machine;
mod page;
mod peers;
mod records;
mod ruler;
mod section;
mod sections;
mod strips;
mod suite;

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use tempfile::NamedTempFile;

use self::records::Records;
use self::suite::{Measured, Suite};
use crate::configuration::ConfigFlag;
use crate::failure::{Failure, print, tell};
use crate::files::behind_links;

/// Measures everything, and writes a page about it that a stranger can read.
///
/// The page is one HTML file, which needs nothing else. It begins with a sentence, explains every figure, and carries the raw
/// records. What can't run here (--netns without root, comparisons without another library) is left out with the reason. Parts
/// that would take much longer than they should are cut off, and those that there is no time left for are left out; the page names
/// them. With Ctrl-C the page has what was measured until then.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway bench report --quick                          less than three minutes
  ropeway bench report --output node7.html              about twenty minutes
  ROPEWAY_PEERS=/opt/mpich ropeway bench report         beside this library too
  ropeway bench report --json > node7.jsonl             keep the records as well
  ropeway bench report --records node7.jsonl            the page again, without measuring")]
pub(crate) struct Flags {
    /// Less of everything, in less than three minutes.
    #[arg(long, conflicts_with = "records")]
    quick: bool,
    /// Where the page goes.
    #[arg(long, value_name = "FILE", default_value = "ropeway-report.html")]
    output: PathBuf,
    /// Measure nothing: the page of records that were saved, of this command or of other benchmarks with --json.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Also print the records, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(flags: &Flags) -> Result<(), Failure> {
    let page = Page::begin(&flags.output)?;
    if !flags.quiet && flags.records.is_none() {
        ConfigFlag::default().tell()?;
    }
    let Measured { records: text, failure } = match &flags.records {
        Some(path) => Measured { records: read(path)?, failure: None },
        None if flags.quick => Suite::QUICK.measure(flags.quiet)?,
        None => Suite::FULL.measure(flags.quiet)?,
    };
    let source =
        flags.records.as_ref().map_or_else(|| "what was measured".to_owned(), |path| path.display().to_string());
    let records = Records::parse(&text).map_err(|error| Failure::Other(format!("{source}: {error}")))?;
    page.end(&page::html(&records))?;
    if flags.json {
        print(&text)?;
    }
    if !flags.quiet {
        tell(&format!("The page is {}: open it in a browser.", flags.output.display()));
    }
    failure.map_or(Ok(()), Err)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Other(format!("can't read {}: {error}", path.display())))
}

/// Where the page goes.
struct Page<'a> {
    path: &'a Path,
    place: Place,
}

enum Place {
    /// The file to be, which appears under this name when it is complete. An older one stays until then.
    New(NamedTempFile, PathBuf),
    /// A pipe or a device, which can't be replaced.
    Open(File),
}

impl<'a> Page<'a> {
    /// Refuses what can't be written before anything is measured.
    fn begin(path: &'a Path) -> Result<Self, Failure> {
        let cannot_write = |error| Failure::cannot_write(path, &error);
        let place = match path.metadata() {
            Ok(there) if there.is_dir() => {
                return Err(Failure::Other(format!("can't write {}: it is a directory", path.display())));
            }
            Ok(there) if !there.is_file() => Place::Open(File::options().write(true).open(path).map_err(cannot_write)?),
            _ => {
                let real = behind_links(path);
                let folder = real.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
                let readable = Permissions::from_mode(0o644);
                let file =
                    tempfile::Builder::new().prefix(".ropeway-report-").permissions(readable).tempfile_in(folder);
                Place::New(file.map_err(cannot_write)?, real)
            }
        };
        Ok(Self { path, place })
    }

    fn end(self, html: &str) -> Result<(), Failure> {
        let cannot_write = |error| Failure::cannot_write(self.path, &error);
        match self.place {
            Place::Open(mut file) => file.write_all(html.as_bytes()).map_err(cannot_write),
            Place::New(mut file, real) => {
                file.write_all(html.as_bytes()).map_err(cannot_write)?;
                file.persist(&real).map(drop).map_err(|unfinished| cannot_write(unfinished.error))
            }
        }
    }
}
