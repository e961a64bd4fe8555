/** The page's views by the first part of their URL. */
import type { ComponentType } from "preact";
import { ConfigurationView } from "../configuration/view";
import { GroupView } from "../group/view";
import type { PlanModel } from "../plan/model";
import { PlanView } from "../plan/view";
import { PodView } from "../pod/view";
import { QueueView } from "../queue/view";
import { ReportView } from "../report/view";
import { RoomView } from "../room/view";
import type { Capability, Source } from "../source/source";
import { TimeView } from "../time/view";
import { WorkbenchView } from "../workbench/view";
import type { Address } from "./address";

export interface ViewProps {
  source: Source;
  plan: PlanModel;
  address: Address;
}

export interface View {
  component: ComponentType<ViewProps>;
  title: string;
  /** The capability that the source must have. */
  needs: Capability;
  /** Whether it is in the navigation. */
  listed: boolean;
}

export const VIEWS: Record<string, View> = {
  report: { component: ReportView, title: "Report", needs: "report", listed: true },
  plan: { component: PlanView, title: "Plan", needs: "plan", listed: true },
  node: { component: PlanView, title: "Node", needs: "plan", listed: false },
  room: { component: RoomView, title: "Room", needs: "plan", listed: true },
  queue: { component: QueueView, title: "Queue", needs: "pending", listed: true },
  workbench: { component: WorkbenchView, title: "Workbench", needs: "whatIf", listed: true },
  time: { component: TimeView, title: "Time", needs: "time", listed: true },
  configuration: { component: ConfigurationView, title: "Configuration", needs: "configuration", listed: true },
  pod: { component: PodView, title: "Pod", needs: "explain", listed: false },
  group: { component: GroupView, title: "Group", needs: "podgroups", listed: false },
};
