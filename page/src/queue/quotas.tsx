/** What quotas use of what they are guaranteed and of the most they may use, and who borrows from whom. */
import { amount } from "../parts/format";
import { type Column, Table } from "../parts/table";
import type { QuotaRecord } from "../protocol";

export function Quotas({ quotas }: { quotas: QuotaRecord[] }) {
  const columns: Column<QuotaRecord>[] = [
    { title: "Quota", value: (one) => one.quota },
    { title: "Resource", value: (one) => one.resource },
    { title: "Use", value: (one) => shareOf(one), show: (one) => <Bar quota={one} /> },
    { title: "Used", value: (one) => one.used, show: (one) => amount(one.resource, one.used) },
    { title: "Guaranteed", value: (one) => one.least, show: (one) => amount(one.resource, one.least) },
    {
      title: "At most",
      value: (one) => one.most ?? "",
      show: (one) => (one.most == null ? "" : amount(one.resource, one.most)),
    },
    { title: "Borrows", value: borrows },
  ];
  return (
    <section class="card" aria-labelledby="quotas">
      <h2 id="quotas">Quotas</h2>
      <Table
        caption="Quotas, those that borrow first"
        columns={columns}
        rows={quotas}
        rowKey={(one) => `${one.quota} ${one.resource}`}
        file="quotas"
      />
    </section>
  );
}

/** The right end of the bar: the most that may be used or, without one, what is used or guaranteed. */
function endOf(one: QuotaRecord): number {
  return Math.max(one.most ?? 0, one.used, one.least, 1);
}

function shareOf(one: QuotaRecord): number {
  return Math.round((100 * one.used) / endOf(one));
}

/** "3 of team-b", or nothing. */
export function borrows(one: QuotaRecord): string {
  if (one.used <= one.least) return "";
  const more = amount(one.resource, one.used - one.least);
  return one.lenders?.length ? `${more} of ${one.lenders.join(", ")}` : more;
}

const WIDTH = 160;
const HEIGHT = 12;

/** What is used within the guarantee, what is borrowed, and a mark at the guarantee. */
function Bar({ quota }: { quota: QuotaRecord }) {
  const scale = WIDTH / endOf(quota);
  const own = Math.min(quota.used, quota.least) * scale;
  return (
    <svg class="quota" width={WIDTH} height={HEIGHT} role="img" aria-label={`${shareOf(quota)} %`}>
      <rect class="room" width={WIDTH} height={HEIGHT} />
      <rect class="own" width={own} height={HEIGHT} />
      <rect class="borrowed" x={own} width={quota.used * scale - own} height={HEIGHT} />
      <line class="least" x1={quota.least * scale} x2={quota.least * scale} y1={0} y2={HEIGHT} />
    </svg>
  );
}
