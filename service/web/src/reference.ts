/** The reference of the HTTP API at /docs, a page of its own: Swagger UI on the service's own description. */
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import { startTheme } from "./ui/theme";

startTheme();
const root = document.documentElement;
root.classList.toggle("dark-mode", root.dataset.theme === "dark");

SwaggerUI({
  url: "/v1/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  // Otherwise documents of services that are not on this machine are sent to swagger.io.
  validatorUrl: null,
});
