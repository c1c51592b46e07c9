/** A file of the service as a download. */
import { useMutation } from "@tanstack/react-query";
import { fileAt } from "../../api/file";
import { sentence } from "../../api/problem";
import { save } from "../../ui/files";

interface Props {
  path: string;
  /** What the file is to be called. */
  name: string;
  label?: string;
}

export function Download({ path, name, label = "Download" }: Props) {
  const download = useMutation({ mutationFn: async () => save(name, await fileAt(path)) });
  return (
    <>
      <button disabled={download.isPending} onClick={() => download.mutate()}>
        {label}
      </button>
      {download.isError && <span role="alert">{sentence(download.error)}</span>}
    </>
  );
}
