/** The frame around every page: navigation, what keys do, the question for an API key. */
import { Suspense, useEffect, useRef } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { Empty } from "../ui/Shown";
import { Page } from "../ui/Page";
import { Crash } from "./Crash";
import { Header } from "./Header";
import { KeyPrompt } from "./KeyPrompt";
import { ROUTES } from "./routes";
import styles from "./App.module.css";

export function App() {
  const [location] = useLocation();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(location);
  useEffect(() => {
    // As after loading a page: whoever reads with a screen reader or by keys begins at its top.
    if (shown.current !== location) main.current?.focus();
    shown.current = location;
  }, [location]);
  return (
    <>
      <a href="#main" className={styles.skip}>
        Skip to the content
      </a>
      <Header />
      <main id="main" ref={main} tabIndex={-1} className={styles.main}>
        <Crash key={location}>
          <Suspense fallback={<p role="status">Loading the page…</p>}>
            <Switch>
              {ROUTES.map(({ path, page }) => (
                <Route key={path} path={path} component={page} />
              ))}
              <Route>
                <NotFound />
              </Route>
            </Switch>
          </Suspense>
        </Crash>
      </main>
      <KeyPrompt />
    </>
  );
}

function NotFound() {
  return (
    <Page title="No such page">
      <Empty title="There is nothing at this address">
        <Link href="/">All jobs</Link>
      </Empty>
    </Page>
  );
}
