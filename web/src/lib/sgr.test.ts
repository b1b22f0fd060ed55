import { describe, expect, test } from "vitest";

import { cut, LINE_CHARS_MAX, LINES_MAX, PIECES_MAX, search, Terminal } from "./sgr";

/** Lines as text with the classes in brackets. */
function shown(...parts: string[]): string[] {
  const terminal = new Terminal();
  parts.forEach((part) => terminal.feed(part));
  return terminal.lines.map((line) => line.pieces.map((one) => (one.style ? `<${one.style}>${one.text}</>` : one.text)).join(""));
}

const E = "\x1b";

describe("colours", () => {
  test.each([
    [`${E}[31mred${E}[0m plain`, "<t-f1>red</> plain"],
    [`${E}[1;32mgood${E}[22m less${E}[39m none`, "<t-bold t-f2>good</><t-f2> less</> none"],
    [`${E}[97mw${E}[m.`, "<t-f15>w</>."],
    [`${E}[38;5;9ma${E}[38;5;196mb${E}[38;2;0;0;250mc${E}[38;5;244md`, "<t-f9>ab</><t-f4>c</><t-f8>d</>"],
    [`${E}[41mx${E}[37my${E}[49mz`, "<t-b1>xy</><t-f7>z</>"],
    [`${E}[104mx${E}[48;5;46my`, "<t-b4>x</><t-b2>y</>"],
    [`${E}[7mi${E}[27m${E}[4mu${E}[24m${E}[3mi${E}[23m${E}[9ms${E}[29m${E}[2md`, "<t-inverse>i</><t-underline>u</><t-italic>i</><t-strike>s</><t-dim>d</>"],
    [`${E}[38:5:1mx${E}[38:2::0:0:250my${E}[38:2:0:200:0mz`, "<t-f1>x</><t-f4>y</><t-f2>z</>"],
    [`\x9b31mx`, "<t-f1>x</>"],
    [`${E}[38;5mx${E}[38my${E}[38;5;999mz${E}[77;8mq`, "xyzq"],
  ])("%j", (text, wanted) => {
    expect(shown(text)).toEqual([wanted]);
  });
  test("a colour goes on over lines, and over parts that end anywhere", () => {
    const text = `a${E}[1;31mb\nc${E}]0;title\x07d${E}[0me${E}(Bf`;
    const wanted = ["a<t-bold t-f1>b</>", "<t-bold t-f1>cd</>ef"];
    expect(shown(text)).toEqual(wanted);
    for (let at = 0; at <= text.length; at += 1) expect(shown(text.slice(0, at), text.slice(at))).toEqual(wanted);
    expect(shown(...text)).toEqual(wanted);
  });
});

describe("everything else is left out or plain text", () => {
  test.each([
    [`${E}]8;;javascript:alert(1)${E}\\link${E}]8;;${E}\\!`, "link!"],
    [`${E}]52;c;YWJj\x07x`, "x"],
    [`${E}Pq#0;2;0;0;0${E}\\sixel`, "sixel"],
    [`${E}[2J${E}[H${E}[?1049h${E}[10;5Hat${E}[K${E}[6n`, "at"],
    [`${E}c${E}7${E}8${E}=${E}Mx`, "x"],
    ["a\x00\x07\x08\x0e\x7f\x84b", "ab"],
    [`${E}[>4;1mx${E}[?31my`, "xy"],
    ["\x9d0;title\x9cx\x90data\x9cy", "xy"],
    [`${E}]no end\nnext`, "\nnext"],
    [`${E}[31\nnext`, "[31\nnext"],
    ["exe\u202etxt.\u2066\u2028", "exe\\u202etxt.\\u2066\\u2028"],
    ["<img src=x onerror=alert(1)>&amp;", "<img src=x onerror=alert(1)>&amp;"],
    ["tab\tstays", "tab\tstays"],
  ])("%j", (text, wanted) => {
    expect(shown(text).join("\n")).toBe(wanted);
  });
  test("a carriage return writes over the line, as progress bars do", () => {
    expect(shown("10%\r", "20%\r", "30%")).toEqual(["30%"]);
    expect(shown("a\r\nb\r", "\nc")).toEqual(["a", "b", "c"]);
  });
});

describe("bounds", () => {
  test("lines, characters of a line, pieces of a line", () => {
    const terminal = new Terminal();
    for (let part = 0; part < 30; part += 1) terminal.feed("x\n".repeat(1000));
    expect([terminal.lines.length, terminal.dropped]).toEqual([LINES_MAX - 1, 30_000 - LINES_MAX + 1]);
    expect(new Set(terminal.lines.map((one) => one.key)).size).toBe(terminal.lines.length);
    expect(shown("y".repeat(LINE_CHARS_MAX * 2 + 5)).map((one) => one.length)).toEqual([LINE_CHARS_MAX, LINE_CHARS_MAX, 5]);
    const many = new Terminal();
    many.feed(`${E}[31ma${E}[32mb`.repeat(PIECES_MAX));
    expect([many.lines[0]?.pieces.length, many.lines[0]?.text.length]).toEqual([PIECES_MAX, 2 * PIECES_MAX]);
  });
  test.each([`${E}[`, `${E}]`, "\x9d", "\x9b", `${E}[1;`, `${E}P`, `${E} `, "\r", `${E}[38;5;`, "\u202e", `${E}[31m`])(
    "a megabyte of %j is bounded", (text) => {
      const terminal = new Terminal();
      for (let part = 0; part < 16; part += 1) terminal.feed(text.repeat(65_536 / text.length));
      expect(terminal.lines.length).toBeLessThanOrEqual(LINES_MAX);
      terminal.feed("\x1b\\\nend");
      expect(terminal.lines.at(-1)?.text).toBe("end");
    });
  test("any text is shown in some way", () => {
    let seed = 7;
    const next = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const parts = [E, "[", "]", "m", "1", ";", "\x07", "\\", "\n", "\r", "a", "\x9b", "\x9c", "P", "?", " ", "38;5;", "\u202e"];
    for (let round = 0; round < 300; round += 1) {
      const text = Array.from({ length: 40 }, () => parts[next(parts.length)]).join("");
      const whole = shown(text);
      expect(shown(...text)).toEqual(whole);
      expect(/[\x00-\x08\x0a-\x1f\x7f-\x9f\u202e]/.test(whole.join(""))).toBe(false); // eslint-disable-line no-control-regex
    }
  });
});

test("places of a text are found in either case and cut out, over colours", () => {
  const terminal = new Terminal();
  terminal.feed(`Loss ${E}[31mlo${E}[0mss\nnone\nLOSS`);
  const found = search(terminal.lines, "loss", 10);
  expect(found).toEqual([{ line: 0, from: 0 }, { line: 0, from: 5 }, { line: 2, from: 0 }]);
  const line = terminal.lines[0];
  expect(line && cut(line, [0, 5], 4)).toEqual([
    { text: "Loss", style: "", mark: 0 }, { text: " ", style: "", mark: -1 },
    { text: "lo", style: "t-f1", mark: 1 }, { text: "ss", style: "", mark: 1 },
  ]);
  expect([search(terminal.lines, "", 10), search(terminal.lines, "s", 3).length]).toEqual([[], 3]);
});
