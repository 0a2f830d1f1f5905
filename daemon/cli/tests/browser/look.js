// Looks at what the browser has drawn, and writes down what is wrong, or what there is.
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
  const names = [...plot.querySelectorAll("text.name")].map((words) => [words.textContent, words.getBoundingClientRect()]);
  for (const [left, from] of names)
    for (const [right, to] of names)
      if (from.left < to.left && to.left < from.right && from.top === to.top) say(`${left} runs into ${right}`);
  for (const element of plot.querySelectorAll("*"))
    for (const { name, value } of element.attributes)
      if (/NaN|Infinity|undefined/.test(value)) say(`${name} is ${value}`);
}
document.getElementById("verdict").textContent = wrong.length ? wrong.join("\n")
  : `${plots.length} figures, ${innerWidth} wide, ${matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"}`;
