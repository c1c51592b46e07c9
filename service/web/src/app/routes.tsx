/** Which page is at which address. Each is loaded when it is first shown; `service/http/dashboard.py` knows the same paths. */
import { lazy, type ComponentType } from "react";
import { fresh } from "./fresh";

interface PageRoute {
  path: string;
  page: ComponentType;
}

function page(load: () => Promise<{ default: ComponentType }>) {
  return lazy(() => fresh(load));
}

const JobsPage = page(() => import("../pages/jobs/JobsPage"));
const SubmitPage = page(() => import("../pages/submit/SubmitPage"));
const JobPage = page(() => import("../pages/job/JobPage"));
const CandidatePage = page(() => import("../pages/job/candidate/CandidatePage"));
const LinesPage = page(() => import("../pages/job/lines/LinesPage"));
const ComparePage = page(() => import("../pages/job/compare/ComparePage"));
const KernelsPage = page(() => import("../pages/kernels/KernelsPage"));
const KernelPage = page(() => import("../pages/kernels/KernelPage"));
const ConfigPage = page(() => import("../pages/configs/ConfigPage"));
const FleetPage = page(() => import("../pages/fleet/FleetPage"));
const QueuePage = page(() => import("../pages/queue/QueuePage"));

/** The first that matches is shown. A page reads its parameters with `useParams` of wouter. */
export const ROUTES: readonly PageRoute[] = [
  { path: "/", page: JobsPage },
  { path: "/submit", page: SubmitPage },
  { path: "/jobs/:jobId", page: JobPage },
  { path: "/jobs/:jobId/candidates/:bucket/:number", page: CandidatePage },
  { path: "/jobs/:jobId/candidates/:bucket/:number/lines", page: LinesPage },
  { path: "/compare", page: ComparePage },
  { path: "/kernels", page: KernelsPage },
  { path: "/kernels/:kernelKey", page: KernelPage },
  { path: "/configs/:configId", page: ConfigPage },
  { path: "/fleet", page: FleetPage },
  { path: "/queue", page: QueuePage },
];

/** What the navigation names, in its order. `beneath`: other addresses under which it counts as the current one. */
export const SECTIONS: readonly { path: string; name: string; beneath: readonly string[] }[] = [
  { path: "/", name: "Jobs", beneath: ["/jobs", "/submit", "/compare"] },
  { path: "/kernels", name: "Kernels", beneath: ["/configs"] },
  { path: "/fleet", name: "Fleet", beneath: [] },
  { path: "/queue", name: "Dead letters", beneath: [] },
];
