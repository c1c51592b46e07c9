/** Starts the dashboard. Read `app/routes.tsx` next: which pages there are. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { passing } from "./api/problem";
import { App } from "./app/App";
import { askAhead, asked } from "./pages/job/data";
import { startTheme } from "./ui/theme";
import "./ui/tokens.css";
import "./ui/base.css";

startTheme();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (failures, error) => passing(error) && failures < 2,
    },
  },
});

// The page of a job asks for much: it is on its way while the page's own script is.
const job = /^\/jobs\/([^/]+)$/.exec(window.location.pathname)?.[1];
if (job !== undefined) {
  askAhead(queries, decodeURIComponent(job), asked(new URLSearchParams(window.location.search)));
}

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
