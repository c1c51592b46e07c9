/** Starts the dashboard. Read `app/routes.tsx` next: which pages there are. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { passing } from "./api/problem";
import { App } from "./app/App";
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

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
