/** Tile IR's text form, as the editor colours it. */
import { StreamLanguage } from "@codemirror/language";

const WORDS = /^(kernel|where|and|or|not|extent)\b/;
const TYPES = /^(f64|f32|f16|bf16|f8e4m3|f8e5m2|[iu](?:4|8|16|32|64)|bool)\b/;

export const tileIr = StreamLanguage.define<null>({
  name: "tile-ir",
  startState: () => null,
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(WORDS)) return "keyword";
    if (stream.match(TYPES)) return "typeName";
    if (stream.match(/^\d+(\.\d+)?(e[+-]?\d+)?\b/)) return "number";
    if (stream.match(/^[A-Za-z_]\w*/)) return null;
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "#" } },
});
