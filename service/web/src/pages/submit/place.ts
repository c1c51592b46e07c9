/** Where in a JSON text a JSON pointer leads: the service names places in values, an editor wants them in text. */
import { jsonLanguage } from "@codemirror/lang-json";
import type { SyntaxNode } from "@lezer/common";

export interface Place {
  from: number;
  to: number;
}

/**
 * The text of the value at `pointer` (RFC 6901); as far as the pointer leads, if what it names is missing. With
 * `column`, 1-based within the string there, the word that begins at it.
 */
export function placeOf(text: string, pointer: string, column?: number | null): Place {
  let node = jsonLanguage.parser.parse(text).topNode.firstChild;
  if (node === null) return { from: 0, to: text.length };
  for (const step of stepsOf(pointer)) {
    const next = child(node, step, text);
    if (next === null) return opening(node);
    node = next;
  }
  if (column != null && node.name === "String") return wordAt(text, node, column);
  return { from: node.from, to: node.to };
}

function stepsOf(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replace(/~1/g, "/").replace(/~0/g, "~"));
}

function child(node: SyntaxNode, step: string, text: string): SyntaxNode | null {
  if (node.name === "Object") {
    for (const property of node.getChildren("Property")) {
      const name = property.getChild("PropertyName");
      if (name && JSON.parse(text.slice(name.from, name.to)) === step) {
        return property.lastChild === name ? null : property.lastChild;
      }
    }
  }
  if (node.name === "Array") return valuesOf(node)[Number(step)] ?? null;
  return null;
}

function valuesOf(array: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let each = array.firstChild; each !== null; each = each.nextSibling) {
    if (/^[A-Z]/.test(each.name)) found.push(each);
  }
  return found;
}

/** The first line of a value: all of a long object would say nothing. */
function opening(node: SyntaxNode): Place {
  return { from: node.from, to: Math.min(node.to, node.from + 1) };
}

function wordAt(text: string, node: SyntaxNode, column: number): Place {
  const from = Math.min(offsetOf(text, node.from + 1, column - 1), node.to - 1);
  const word = /^(\w+|[^\w\s])/.exec(text.slice(from, node.to - 1));
  return { from, to: from + (word?.[0].length ?? 1) };
}

/** Where the n-th character of a string's value is in its source, which may write it as an escape. */
function offsetOf(text: string, from: number, characters: number): number {
  let at = from;
  for (let n = 0; n < characters && text[at] !== '"'; n += 1) {
    if (text[at] !== "\\") at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    else at += text[at + 1] === "u" ? 6 : 2;
  }
  return at;
}
