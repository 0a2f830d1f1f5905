//! A page as a browser draws and prints it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Chromium, without a window.
pub(crate) struct Browser(PathBuf);

impl Browser {
    /// `None` if there is none, which is said.
    ///
    /// # Panics
    /// Without a browser where everything is to be checked, which the environment variable `CI` tells.
    pub(crate) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let mut places = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
        let found = places.find(|place| place.is_file());
        if found.is_none() {
            assert!(std::env::var_os("CI").is_none(), "no browser to look at the page: install chromium");
            eprintln!("no browser to look at the page: install chromium");
        }
        found.map(Self)
    }

    /// What it finds whose user prefers a light or a dark page and whose window is so wide: how many figures have drawn, how wide
    /// the window was and in which colours, or what is wrong.
    pub(crate) fn see(&self, html: &str, width: u32, scheme: &str, folder: &Path) -> String {
        let page = format!("{html}<pre id=\"verdict\"></pre><script>{LOOK}</script>");
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        let path = folder.join("looked-at.html");
        // In a frame, because no window of the browser is as narrow as that of a telephone.
        let frame = format!("<iframe style=\"border:0;width:{width}px;height:1000px\" srcdoc=\"{page}\"></iframe>");
        let window =
            format!("<!DOCTYPE html>{SCHEMES}{frame}<pre id=\"seen\"></pre><script>onload = () => {SEEN};</script>");
        fs::write(&path, window).unwrap();
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(scheme == "light"));
        let window = format!("--window-size={},1100", width + 100);
        let seen = self.run(&["--dump-dom", &scheme, &window], &path, folder);
        let (_, verdict) = seen.split_once("<pre id=\"seen\">").unwrap_or_else(|| panic!("{seen}"));
        verdict.split_once("</pre>").unwrap().0.to_owned()
    }

    /// The printed page, as PDF.
    pub(crate) fn print(&self, html: &str, folder: &Path) -> Vec<u8> {
        let (path, printed) = (folder.join("to-print.html"), folder.join("printed.pdf"));
        fs::write(&path, html).unwrap();
        self.run(&[&format!("--print-to-pdf={}", printed.display()), "--no-pdf-header-footer"], &path, folder);
        fs::read(printed).unwrap()
    }

    /// What it says about a file.
    fn run(&self, options: &[&str], file: &Path, folder: &Path) -> String {
        let mut command = Command::new(&self.0);
        command.args(QUIETLY).args(options).arg(format!("--user-data-dir={}", folder.join("profile").display()));
        let output = command.arg(format!("file://{}", file.display())).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Nothing but the page, without a sandbox because root has none.
const QUIETLY: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
];
/// Run by the page.
const LOOK: &str = include_str!("look.js");
/// The frame has the colours of the window around it.
const SCHEMES: &str = "<meta name=\"color-scheme\" content=\"light dark\">";
/// Run by the window around it, once all is there.
const SEEN: &str = "document.getElementById(\"seen\").textContent = \
     frames[0].document.getElementById(\"verdict\").textContent";
