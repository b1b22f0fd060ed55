/**
 * A terminal's text as lines of styled pieces: colours and weights (SGR) become a fixed set of classes, every other escape
 * sequence and control character is left out, and nothing is ever markup. Fed in parts, of which any may end within a sequence.
 */

/** Lines that are kept, and characters of one; a longer one is broken. */
export const LINES_MAX = 5000;
export const LINE_CHARS_MAX = 4000;
/** Pieces of one line: what changes its colour more often goes on without. */
export const PIECES_MAX = 400;
/** A sequence that has not ended after so many characters is none. */
const SEQUENCE_CHARS_MAX = 4096;
const PARAMETERS_MAX = 32;

export interface Piece {
  readonly text: string;
  /** Classes of style.css, "" for plain text. */
  readonly style: string;
}

export interface Line {
  readonly key: number;
  readonly text: string;
  readonly pieces: readonly Piece[];
}

interface Style {
  foreground: number; // 0 to 15; -1 = the page's own
  background: number;
  flags: Set<string>;
}

/** Classes that a code of SGR sets, and those that one takes back. */
const SETS: Record<number, string> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const CLEARS: Record<number, readonly string[]> = {
  22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"],
};
/** The 16 colours as most terminals have them, to find the nearest. */
const PALETTE: readonly (readonly [number, number, number])[] = [
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
  [127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255], [255, 0, 255], [0, 255, 255], [255, 255, 255],
];
/** ITU's form of a colour has a number before its three, which stands for the same. */
const SPACE_OF_COLOURS = /([34]8:2:)\d*:(?=\d*:\d*:\d)/g;
const CUBE = [0, 95, 135, 175, 215, 255];

/* eslint no-control-regex: "off" -- they are what is looked for */
/** Text up to what needs a look. */
const PLAIN = /[^\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+/y;
/** ESC [ or its one character, parameters, what is between, the end. */
const CSI = /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])/y;
/** What begins a sequence with a text (OSC, DCS, SOS, PM, APC), and what ends that: BEL or ST, or what cannot be in it. */
const STRING = /\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]/y;
const STRING_END = /\x07|\x9c|\x1b\\?|[\x18\x1a\n]/g;
/** The others: ESC, what is between, one character. */
const OTHER = /\x1b[ -/]*[0-OQ-WYZ\\`-~]/y;
/** The beginning of a sequence of either kind. */
const OPEN = /^(?:\x1b[ -/]*|(?:\x1b\[|\x9b)[0-?]*[ -/]*)$/;
const BEGINS = /[\x1b\x90\x98\x9b\x9d\x9e\x9f]/;
/** Characters that change the direction of the text around them, or break lines: shown by their numbers. */
const SHOWN = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

export class Terminal {
  /** Whole lines, at most LINES_MAX; the last one may still grow. */
  lines: readonly Line[] = [];
  /** Lines that were dropped from the beginning. */
  dropped = 0;
  private kept: Line[] = [];
  private pieces: Piece[] = [];
  private chars = 0;
  private rest = "";
  private returned = false;
  private style: Style = plain();
  private key = 0;

  /** Takes the next part of the text. */
  feed(part: string): void {
    const text = this.rest + part;
    this.rest = "";
    let at = 0;
    while (at < text.length) {
      const end = this.take(text, at);
      if (end < 0) {
        this.rest = text.slice(at);
        break;
      }
      at = end;
    }
    const surplus = this.kept.length + 1 - LINES_MAX;
    if (surplus > 0) {
      this.kept.splice(0, surplus);
      this.dropped += surplus;
    }
    this.lines = this.pieces.length ? [...this.kept, this.current()] : [...this.kept];
  }

  /** Takes what is at a place; where the next is, or -1: it is not all here yet. */
  private take(text: string, at: number): number {
    const run = match(PLAIN, text, at);
    if (run) {
      this.add(run[0]);
      return at + run[0].length;
    }
    const one = text[at] as string;
    if (one === "\n") this.endLine();
    else if (one === "\r") this.returned = true;
    else if (SHOWN.test(one)) this.add(`\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
    else if (BEGINS.test(one)) return this.sequence(text, at);
    return at + 1;
  }

  private sequence(text: string, at: number): number {
    const control = match(CSI, text, at);
    if (control) {
      if (control[2] === "m" && /^[\d;:]*$/.test(control[1] ?? "")) apply(this.style, control[1] ?? "");
      return at + control[0].length;
    }
    const string = match(STRING, text, at);
    if (string) return endOfString(text, at + string[0].length);
    const other = match(OTHER, text, at);
    if (other) return at + other[0].length;
    return text.length - at < SEQUENCE_CHARS_MAX && OPEN.test(text.slice(at)) ? -1 : at + 1;
  }

  private add(text: string): void {
    if (this.returned) { // what was written is written over, as a progress bar is
      this.returned = false;
      this.pieces = [];
      this.chars = 0;
    }
    const style = classesOf(this.style);
    for (let from = 0; from < text.length; ) {
      const taken = text.slice(from, from + LINE_CHARS_MAX - this.chars);
      const last = this.pieces.at(-1);
      if (last && (last.style === style || this.pieces.length >= PIECES_MAX)) {
        this.pieces[this.pieces.length - 1] = { text: last.text + taken, style: last.style };
      } else this.pieces.push({ text: taken, style });
      this.chars += taken.length;
      from += taken.length;
      if (this.chars >= LINE_CHARS_MAX) this.endLine();
    }
  }

  private current(): Line {
    return { key: this.key, text: this.pieces.map((one) => one.text).join(""), pieces: [...this.pieces] };
  }

  private endLine(): void {
    this.kept.push(this.current());
    this.key += 1;
    this.pieces = [];
    this.chars = 0;
    this.returned = false;
    if (this.kept.length > 2 * LINES_MAX) {
      this.dropped += this.kept.length - LINES_MAX;
      this.kept.splice(0, this.kept.length - LINES_MAX);
    }
  }
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Where the text of a sequence ends, -1: it goes on. One that is too long is left out as far as it is here. */
function endOfString(text: string, from: number): number {
  const end = match(STRING_END, text, from);
  if (!end || (end[0] === "\x1b" && end.index === text.length - 1)) return text.length - from < SEQUENCE_CHARS_MAX ? -1 : text.length;
  return /[\x07\x9c\\]/.test(end[0]) ? end.index + end[0].length : end.index;
}

function plain(): Style {
  return { foreground: -1, background: -1, flags: new Set() };
}

function apply(style: Style, text: string): void {
  const codes = text.replace(SPACE_OF_COLOURS, "$1").split(/[;:]/, PARAMETERS_MAX).map((one) => Number(one || "0"));
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] as number;
    if (code === 38 || code === 48) {
      const [colour, used] = wide(codes, at + 1);
      if (code === 38) style.foreground = colour ?? style.foreground;
      else style.background = colour ?? style.background;
      at += used;
    } else one(style, code);
  }
}

function one(style: Style, code: number): void {
  const set = SETS[code];
  if (code === 0) Object.assign(style, plain());
  else if (set) style.flags.add(set);
  else if (CLEARS[code]) CLEARS[code].forEach((flag) => style.flags.delete(flag));
  else if (code === 39) style.foreground = -1;
  else if (code === 49) style.background = -1;
  else if (code >= 30 && code <= 37) style.foreground = code - 30;
  else if (code >= 90 && code <= 97) style.foreground = code - 82;
  else if (code >= 40 && code <= 47) style.background = code - 40;
  else if (code >= 100 && code <= 107) style.background = code - 92;
}

/** A colour of 256 or of all, as the nearest of the 16; and how many codes it took. */
function wide(codes: readonly number[], at: number): [number | undefined, number] {
  if (codes[at] === 5) {
    const number = codes[at + 1] ?? 256;
    if (number < 16) return [number, 2];
    if (number > 255) return [undefined, 2];
    if (number >= 232) return [nearest(Array<number>(3).fill(8 + 10 * (number - 232))), 2];
    const cube = number - 16;
    return [nearest([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((part) => CUBE[part] ?? 0)), 2];
  }
  if (codes[at] === 2) return [nearest(codes.slice(at + 1, at + 4)), 4];
  return [undefined, codes.length];
}

function nearest(colour: readonly number[]): number {
  const far = PALETTE.map((own) => own.reduce((sum, part, index) => sum + (part - (colour[index] ?? 0)) ** 2, 0));
  return far.indexOf(Math.min(...far));
}

/** A background takes the page's own colour of text: each pair can be read. */
function classesOf(style: Style): string {
  const found = [...style.flags].sort();
  if (style.flags.has("inverse")) return found.map((flag) => `t-${flag}`).join(" ");
  if (style.background >= 0) found.push(`b${style.background % 8}`);
  else if (style.foreground >= 0) found.push(`f${style.foreground}`);
  return found.map((flag) => `t-${flag}`).join(" ");
}

// ---- search

export interface Found {
  readonly line: number;
  readonly from: number;
}

/** Where a text is, in either case, at most `max` places. */
export function search(lines: readonly Line[], wanted: string, max: number): Found[] {
  const low = wanted.toLowerCase();
  const found: Found[] = [];
  if (!low) return found;
  for (let line = 0; line < lines.length; line += 1) {
    const text = (lines[line] as Line).text.toLowerCase();
    for (let from = text.indexOf(low); from >= 0; from = text.indexOf(low, from + low.length)) {
      found.push({ line, from });
      if (found.length >= max) return found;
    }
  }
  return found;
}

/** The pieces of a line, cut at the places of a text of this length; `mark`: which of these a piece belongs to. */
export function cut(line: Line, places: readonly number[], length: number): (Piece & { mark: number })[] {
  const made: (Piece & { mark: number })[] = [];
  let at = 0;
  for (const piece of line.pieces) {
    const end = at + piece.text.length;
    let from = at;
    places.forEach((place, mark) => {
      const [begin, stop] = [Math.max(place, from), Math.min(place + length, end)];
      if (begin >= stop) return;
      if (begin > from) made.push({ text: piece.text.slice(from - at, begin - at), style: piece.style, mark: -1 });
      made.push({ text: piece.text.slice(begin - at, stop - at), style: piece.style, mark });
      from = stop;
    });
    if (from < end) made.push({ text: piece.text.slice(from - at), style: piece.style, mark: -1 });
    at = end;
  }
  return made;
}
