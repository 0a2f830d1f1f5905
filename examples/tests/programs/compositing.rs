//! Compositing on several ranks, compared with a serial blend of the files.

use std::path::Path;

use ropeway_examples::compositing::{Image, blend};

use crate::job;

const COMPOSITING: &str = env!("CARGO_BIN_EXE_compositing");

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_picture_is_that_of_a_serial_blend() {
    let on_one = [(1, 1, "10", "3"), (1, 2, "64", "48"), (1, 3, "33", "7"), (1, 5, "16", "4")];
    let on_several = [(2, 3, "33", "7"), (2, 4, "320", "100"), (3, 5, "64", "48")];
    for (nodes, ranks, width, height) in on_one.into_iter().chain(on_several) {
        let directory = tempfile::tempdir().unwrap();
        let (layers, output) = (directory.path().join("layers"), directory.path().join("picture.png"));
        let args = ["--make-layers", text(&layers), "--output", text(&output), "--width", width, "--height", height];
        let said = job::run_on(nodes, COMPOSITING, ranks, &[&args[..], &["--check"]].concat()).stdout();
        assert!(said.contains("the same as the serial blend"), "{said}");

        let layers: Vec<_> =
            (0..ranks).map(|rank| Image::read_png(&layers.join(format!("layer-{rank:03}.png"))).unwrap()).collect();
        let mut expected = layers[0].clone();
        blend(layers.iter().map(|layer| &layer.pixels[..]), &mut expected.pixels);
        assert_eq!(Image::read_png(&output).unwrap(), expected);
    }
}

#[test]
fn layers_are_taken_in_the_order_in_which_they_are_given() {
    let directory = tempfile::tempdir().unwrap();
    let [green, blue, output] = ["green.png", "blue.png", "picture.png"].map(|name| directory.path().join(name));
    let image = |pixel| Image { width: 2, height: 2, pixels: vec![pixel; 4] };
    image([0, 255, 0, 255]).write_png(&green).unwrap();
    image([0, 0, 255, 255]).write_png(&blue).unwrap();
    for (front, back, seen) in [(&green, &blue, [0, 255, 0, 255]), (&blue, &green, [0, 0, 255, 255])] {
        job::run(COMPOSITING, 2, &[text(front), text(back), "--output", text(&output)]).stdout();
        assert_eq!(Image::read_png(&output).unwrap(), image(seen));
    }
}

#[test]
fn layers_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let [small, large] = ["small.png", "large.png"].map(|name| directory.path().join(name));
    Image { width: 1, height: 1, pixels: vec![[0; 4]] }.write_png(&small).unwrap();
    Image { width: 2, height: 1, pixels: vec![[0; 4]; 2] }.write_png(&large).unwrap();
    let complaint = job::run(COMPOSITING, 2, &[text(&small), text(&large)]).complaint();
    assert!(complaint.contains("large.png has [2, 1] pixels, "), "{complaint}");
    assert!(job::run(COMPOSITING, 3, &[text(&small), text(&small)]).complaint().contains("start it with -n 2"));
}
