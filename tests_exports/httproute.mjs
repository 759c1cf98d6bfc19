// Run by node inside .venv-exports: what the published schema says of each HTTPRoute of stdin, null where it is valid.
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import { readFileSync } from "node:fs";

const said = JSON.parse(readFileSync(0, "utf8")).map((route) => {
  try {
    new HTTPRoute(route).validate();
    return null;
  } catch (error) {
    return error.message;
  }
});
console.log(JSON.stringify(said));
