// Cores and milliseconds at a load that the reader types, from the numbers beside the field.
(() => {
  const form = document.currentScript.previousElementSibling;
  const load = JSON.parse(form.dataset.load);
  const field = form.querySelector("input");
  const body = form.querySelector("tbody");
  const timed = load.points.filter((point) => point[2] !== null);
  const unknown = "not measured";

  // a value at a load: a straight line between two measured ones, that of the nearest beyond; NaN
  // where none is known
  const at = (points, column, rate) => {
    const known = points.filter((point) => point[column] !== null);
    if (!known.length) return NaN;
    const after = known.findIndex((point) => point[0] >= rate);
    if (after === 0) return known[0][column];
    if (after < 0) return known[known.length - 1][column];
    const [low, high] = [known[after - 1], known[after]];
    const share = (rate - low[0]) / (high[0] - low[0]);
    return low[column] + share * (high[column] - low[column]);
  };
  // three significant digits, of a difference two and its sign
  const shown = (value, sign) => {
    const digits = sign ? 2 : 3;
    const form = { minimumSignificantDigits: digits, maximumSignificantDigits: digits };
    return value.toLocaleString("en", { ...form, signDisplay: sign }).replace("-", "\u2212");
  };
  const row = (cells) => {
    const line = document.createElement("tr");
    cells.forEach((text, n) => {
      const cell = document.createElement(n ? "td" : "th");
      cell.textContent = text;
      line.append(cell);
    });
    return line;
  };
  // an estimate and the ends of its interval, as far as they are known
  const range = ([middle, lo, hi], sign) => {
    if (Number.isNaN(middle)) return unknown;
    const ends = Number.isNaN(lo) ? "" : ` (${shown(lo, sign)} to ${shown(hi, sign)})`;
    return `${shown(middle, sign)}${ends}`;
  };
  // an arm's whole, and what it adds to the baseline's
  const added = (whole, factors) => {
    if (Number.isNaN(factors[0])) return unknown;
    const more = factors.map((factor) => whole * (factor - 1));
    return `${shown(whole * factors[0])}; ${range(more, "exceptZero")}`;
  };
  const draw = () => {
    const rate = Number(field.value);
    if (!(rate > 0)) return body.replaceChildren(row(["a number above 0 is needed", "", "", ""]));
    const cores = rate * at(load.points, 1, rate);
    const inside = timed.length && rate >= timed[0][0] && rate <= timed[timed.length - 1][0];
    const wait = inside ? at(load.points, 2, rate) : NaN;
    const lines = [row([load.name, shown(cores), shown(730 * cores), range([wait, NaN, NaN])])];
    for (const arm of load.arms) {
      const factors = (column) => [0, 1, 2].map((n) => at(arm.points, column + n, rate));
      const [cpu, tail] = [factors(1), factors(4).map((factor) => wait * factor)];
      lines.push(row([arm.name, added(cores, cpu), added(730 * cores, cpu), range(tail)]));
    }
    body.replaceChildren(...lines);
  };
  field.addEventListener("input", draw);
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
})();
