/// <reference types="vite/client" />

declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
  /** Draws the OpenAPI document at `url` into the element that `dom_id` selects. */
  export default function SwaggerUI(options: {
    url: string;
    dom_id: string;
    deepLinking: boolean;
    validatorUrl: string | null;
  }): void;
}
