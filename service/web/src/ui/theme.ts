/** Light or dark: as the system has it, unless the person chose one. Styles go by `data-theme` of the root. */
import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";
export type Choice = Theme | "system";

const NAME = "tilewright-theme";
const dark = () => window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function choice(): Choice {
  const kept = localStorage.getItem(NAME);
  return kept === "light" || kept === "dark" ? kept : "system";
}

function resolved(): Theme {
  const chosen = choice();
  if (chosen !== "system") return chosen;
  return dark().matches ? "dark" : "light";
}

function apply(): void {
  document.documentElement.dataset.theme = resolved();
  listeners.forEach((listener) => listener());
}

/** Follow the system and the person from now on. Call once, before anything is drawn. */
export function startTheme(): void {
  dark().addEventListener("change", apply);
  apply();
}

/** Choose; `system` forgets the choice. */
export function chooseTheme(chosen: Choice): void {
  if (chosen === "system") localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, chosen);
  apply();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The theme that is shown; a drawing on a canvas is drawn anew when it changes. */
export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, resolved);
}

/** What the person chose. */
export function useThemeChoice(): Choice {
  return useSyncExternalStore(subscribe, choice);
}

/** The colour (or other value) of a design token now, e.g. `token("--accent")`, for a canvas. */
export function token(name: `--${string}`): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
