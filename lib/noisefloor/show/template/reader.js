// Cores and milliseconds at a load that the reader types, from the numbers beside the field.
(() => {
  const form = document.currentScript.previousElementSibling;
  const load = JSON.parse(form.dataset.load);
  const field = form.querySelector("input");
  const body = form.querySelector("tbody");
  const first = load.points[0][0];
  const last = load.points[load.points.length - 1][0];

  // a value at a load: a straight line between two measured ones, that of the nearest beyond
  const at = (points, column, rate) => {
    const known = points.filter((point) => point[column] !== null);
    const after = known.findIndex((point) => point[0] >= rate);
    if (after === 0) return known[0][column];
    if (after < 0) return known[known.length - 1][column];
    const [low, high] = [known[after - 1], known[after]];
    const share = (rate - low[0]) / (high[0] - low[0]);
    return low[column] + share * (high[column] - low[column]);
  };
  const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  const shown = (value) => value.toLocaleString("en", digits);
  const row = (cells) => {
    const line = document.createElement("tr");
    cells.forEach((text, n) => {
      const cell = document.createElement(n ? "td" : "th");
      cell.textContent = text;
      line.append(cell);
    });
    return line;
  };
  const range = (whole, arm, column, rate) => {
    const [mid, lo, hi] = [0, 1, 2].map((n) => whole * at(arm.points, column + n, rate));
    return `${shown(mid)} (${shown(lo)} to ${shown(hi)})`;
  };
  const draw = () => {
    const rate = Number(field.value);
    if (!(rate > 0)) return body.replaceChildren(row(["a number above 0 is needed", "", "", ""]));
    const cores = rate * at(load.points, 1, rate);
    const inside = rate >= first && rate <= last;
    const wait = at(load.points, 2, rate);
    const lines = [row([load.name, shown(cores), shown(730 * cores), inside ? shown(wait) : "not measured"])];
    for (const arm of load.arms) {
      const hours = range(730 * cores, arm, 1, rate);
      const tail = inside ? range(wait, arm, 4, rate) : "not measured";
      lines.push(row([arm.name, range(cores, arm, 1, rate), hours, tail]));
    }
    body.replaceChildren(...lines);
  };
  field.addEventListener("input", draw);
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
})();
