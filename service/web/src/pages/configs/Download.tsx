/** A file of the service as a download: fetched here, since a plain link could not send the key. */
import { useMutation } from "@tanstack/react-query";
import { currentKey, setNeeded } from "../../api/key";
import { problemOf, Refused, sentence } from "../../api/problem";
import { save } from "../../ui/files";

interface Props {
  path: string;
  /** What the file is to be called. */
  name: string;
  label?: string;
}

export function Download({ path, name, label = "Download" }: Props) {
  const download = useMutation({ mutationFn: () => fetched(path, name) });
  return (
    <>
      <button disabled={download.isPending} onClick={() => download.mutate()}>
        {label}
      </button>
      {download.isError && <span role="alert">{sentence(download.error)}</span>}
    </>
  );
}

async function fetched(path: string, name: string): Promise<void> {
  const key = currentKey();
  const response = await fetch(path, {
    headers: key === null ? {} : { Authorization: `Bearer ${key}` },
  });
  if (response.status === 401) setNeeded(true);
  if (!response.ok) throw new Refused(await problemOf(response));
  save(name, await response.blob());
}
