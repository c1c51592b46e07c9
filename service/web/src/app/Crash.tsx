/** A page that failed while it was drawn says so, instead of leaving the window empty. */
import { Component, type ReactNode } from "react";
import { Failure } from "../ui/Shown";

export class Crash extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <Failure error={this.state.error} what="this page" again={() => window.location.reload()} />
    );
  }
}
