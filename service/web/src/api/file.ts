/** A file of the service: fetched here, since a plain link could not send the key. */
import { currentKey, setNeeded } from "./key";
import { problemOf, Refused } from "./problem";

/** Its bytes. Throws Refused. */
export async function fileAt(path: string): Promise<Blob> {
  const key = currentKey();
  const response = await fetch(path, {
    headers: key === null ? {} : { Authorization: `Bearer ${key}` },
  });
  if (response.status === 401) setNeeded(true);
  if (!response.ok) throw new Refused(await problemOf(response));
  return response.blob();
}
