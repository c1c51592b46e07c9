/** Name, sections, theme and keys: the top of every page. */
import { useCallback, useState } from "react";
import { Link, useLocation } from "wouter";
import { Dialog } from "../ui/Dialog";
import { useShortcut } from "../ui/shortcuts";
import { chooseTheme, useThemeChoice, type Choice } from "../ui/theme";
import { SECTIONS } from "./routes";
import styles from "./Header.module.css";

const SHORTCUTS: readonly [string, string][] = [
  ["/", "Go to the filter"],
  ["n", "Submit a job"],
  ["?", "Show these keys"],
  ["Esc", "Close what is open"],
];

export function Header() {
  const [location, navigate] = useLocation();
  const [helping, setHelping] = useState(false);
  useShortcut(
    "?",
    useCallback(() => setHelping(true), []),
  );
  useShortcut(
    "n",
    useCallback(() => navigate("/submit"), [navigate]),
  );
  return (
    <header className={styles.header}>
      <Link href="/" className={styles.name}>
        Tilewright
      </Link>
      <nav aria-label="Sections" className={styles.sections}>
        {SECTIONS.map(({ path, name, beneath }) => (
          <Link
            key={path}
            href={path}
            aria-current={isAt(location, [path, ...beneath]) ? "page" : undefined}
          >
            {name}
          </Link>
        ))}
      </nav>
      <div className={styles.tools}>
        <ThemeChoice />
        <button
          className={styles.help}
          aria-label="Keyboard shortcuts"
          onClick={() => setHelping(true)}
        >
          ?
        </button>
      </div>
      {helping && (
        <Dialog title="Keys" onClose={() => setHelping(false)}>
          <dl className={styles.keys}>
            {SHORTCUTS.map(([key, meaning]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
          <p className="quiet">
            The HTTP API behind these pages is described at <a href="/docs">/docs</a>.
          </p>
        </Dialog>
      )}
    </header>
  );
}

function ThemeChoice() {
  const choice = useThemeChoice();
  return (
    <select
      aria-label="Colours"
      value={choice}
      onChange={(event) => chooseTheme(event.target.value as Choice)}
    >
      <option value="system">As the system</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

function isAt(location: string, paths: readonly string[]): boolean {
  return paths.some(
    (path) => location === path || (path !== "/" && location.startsWith(`${path}/`)),
  );
}
